"""Adds up JUnit files: names what failed and what was skipped and why, and ends with the total alone on a line."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree


def reason_of(case: ElementTree.Element, skipped: ElementTree.Element) -> str:
    """Why a test was skipped: GoogleTest prints it, pytest puts it into the message."""
    output = case.findtext("system-out") or ""
    printed = re.search(r"Skipped\s*\n(.+)", output)
    return (printed.group(1) if printed else skipped.get("message") or skipped.text or "no reason given").strip()


def main() -> int:
    passed, failed, skipped = 0, [], []
    for path in sorted(Path(sys.argv[1]).glob("*.xml")):
        for case in ElementTree.parse(path).iter("testcase"):
            name = f"{path.stem}: {case.get('classname') or ''} {case.get('name')}"
            skip = case.find("skipped")
            not_built = skip is not None and "Unable to find executable" in (skip.get("message") or "")
            if case.find("failure") is not None or case.find("error") is not None or not_built:
                failed.append(name)
            elif skip is not None:
                skipped.append(f"{name}: {reason_of(case, skip)}")
            else:
                passed += 1
    for name in skipped:
        print(f"SKIPPED {name}")
    for name in failed:
        print(f"FAILED {name}")
    nothing_ran = passed + len(failed) == 0
    if nothing_ran:
        print("No test ran.")
    print(f"{passed} passed, {len(failed)} failed" + (f", {len(skipped)} skipped" if skipped else ""))
    return 1 if failed or nothing_ran else 0


if __name__ == "__main__":
    sys.exit(main())
