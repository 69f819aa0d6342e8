#include "agent/transport/ucx/resources.h"

#include <span>

#include <uct/api/uct.h>

namespace maypole::agent {
namespace {

std::vector<uct_md_resource_desc_t> MemoryDomains(uct_component_h component) {
  uct_component_attr_t attributes{};
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
  if (uct_component_query(component, &attributes) != UCS_OK) {
    return {};
  }
  std::vector<uct_md_resource_desc_t> domains(attributes.md_resource_count);
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
  attributes.md_resources = domains.data();
  if (domains.empty() || uct_component_query(component, &attributes) != UCS_OK) {
    return {};
  }
  return domains;
}

void AppendResources(uct_component_h component,
                     const char* domain,
                     std::vector<UcxResource>& resources) {
  uct_md_config_t* config = nullptr;
  if (uct_md_config_read(component, nullptr, nullptr, &config) != UCS_OK) {
    return;
  }
  uct_md_h md = nullptr;
  const ucs_status_t opened = uct_md_open(component, domain, config, &md);
  uct_config_release(config);
  if (opened != UCS_OK) {
    return;
  }
  uct_tl_resource_desc_t* found = nullptr;
  unsigned count = 0;
  if (uct_md_query_tl_resources(md, &found, &count) == UCS_OK) {
    for (const uct_tl_resource_desc_t& resource : std::span(found, count)) {
      resources.push_back(
          {resource.tl_name, resource.dev_name, resource.dev_type == UCT_DEVICE_TYPE_NET});
    }
    uct_release_tl_resource_list(found);
  }
  uct_md_close(md);
}

}  // namespace

std::vector<UcxResource> ListUcxResources() {
  std::vector<UcxResource> resources;
  uct_component_h* components = nullptr;
  unsigned count = 0;
  if (uct_query_components(&components, &count) != UCS_OK) {
    return resources;
  }
  for (uct_component_h component : std::span(components, count)) {
    for (const uct_md_resource_desc_t& domain : MemoryDomains(component)) {
      AppendResources(component, domain.md_name, resources);
    }
  }
  uct_release_component_list(components);
  return resources;
}

}  // namespace maypole::agent
