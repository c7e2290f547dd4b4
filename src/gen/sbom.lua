-- sbom.lua - writes the bill of materials of the static perfl, as SPDX 2.3 in JSON:
--   lua5.4 src/gen/sbom.lua VERSION STATIC_FILE LINKED > perfl.spdx.json
-- LINKED has a line for each file that the linker read (ld --trace). dpkg knows the packages of
-- the archives.

package.path = "lua/?.lua;lua/?/init.lua;" .. package.path
package.cpath = package.cpath .. ";build/?.so"

local json = require "perfev.base.json"

local version, static_file, linked = arg[1], arg[2], arg[3]

-- By source package, as in its /usr/share/doc/*/copyright; of the library where its tools have
-- another licence.
local licenses = {
  bzip2 = "bzip2-1.0.6", elfutils = "LGPL-3.0-or-later OR GPL-2.0-or-later",
  gcc = "GPL-3.0-or-later WITH GCC-exception-3.1",
  glibc = "LGPL-2.1-or-later", libmd = "BSD-3-Clause AND BSD-2-Clause AND ISC", libpfm4 = "MIT",
  libzstd = "BSD-3-Clause OR GPL-2.0-only", lua = "MIT",
  xz = "LicenseRef-public-domain", zlib = "Zlib", ["lua-argparse"] = "MIT",
}
local names = { ["xz-utils"] = "xz", ["lua5.4"] = "lua", ["libpfm4"] = "libpfm4" }

local function output_of(command)
  local pipe <close> = assert(io.popen(command))
  return pipe:read "a"
end

-- The archives that the linker read.
local function archives()
  local list, seen = {}, {}
  for line in io.lines(linked) do
    local path = line:match "^/%S+%.a$"
    if path and not seen[path] then
      seen[path] = true
      list[#list + 1] = path
    end
  end
  return list
end

local function license_of(source)
  local name = names[source] or source:match "^gcc" or source
  return licenses[name] or licenses[name:gsub("%d+$", "")] or "NOASSERTION"
end

local packages, relations, known = {}, {}, {}

local function add(source, source_version)
  if known[source] then return end
  known[source] = true
  local id = "SPDXRef-" .. source:gsub("[^%w.-]", "-")
  local locator = ("pkg:deb/debian/%s@%s?arch=source"):format(source,
    source_version:gsub("%+", "%%2B"))
  packages[#packages + 1] = {
    SPDXID = id, name = source, versionInfo = source_version, downloadLocation = "NOASSERTION",
    filesAnalyzed = false, licenseConcluded = license_of(source),
    licenseDeclared = license_of(source), copyrightText = "NOASSERTION",
    supplier = "Organization: Debian",
    externalRefs = { { referenceCategory = "PACKAGE-MANAGER", referenceType = "purl",
      referenceLocator = locator } },
  }
  relations[#relations + 1] = { spdxElementId = "SPDXRef-perfl", relationshipType = "STATIC_LINK",
    relatedSpdxElement = id }
end

local function add_package(owner)
  local query = "dpkg-query -W -f '${source:Package} ${source:Version}\\n' %s | head -n 1"
  add(output_of(query:format(owner)):match "^(%S+) (%S+)")
end

local function add_package_of(path)
  local owner = output_of(("dpkg -S \"$(realpath '%s')\""):format(path)):match "^([^:]+)"
  add_package(assert(owner, path .. ": no package has it"))
end

local sum = output_of(("sha256sum '%s'"):format(static_file)):match "^%x+"
packages[1] = { SPDXID = "SPDXRef-perfl", name = "perfl", versionInfo = version,
  downloadLocation = "NOASSERTION", filesAnalyzed = false, licenseConcluded = "MIT",
  licenseDeclared = "MIT", copyrightText = "2026 perfev contributors",
  checksums = { { algorithm = "SHA256", checksumValue = sum } } }
relations[1] = { spdxElementId = "SPDXRef-DOCUMENT", relationshipType = "DESCRIBES",
  relatedSpdxElement = "SPDXRef-perfl" }
for _, path in ipairs(archives()) do add_package_of(path) end
add_package "lua-argparse"

local epoch = tonumber(os.getenv "SOURCE_DATE_EPOCH") or os.time()
io.write(json.encode {
  spdxVersion = "SPDX-2.3", dataLicense = "CC0-1.0", SPDXID = "SPDXRef-DOCUMENT",
  name = "perfl-" .. version,
  documentNamespace = ("https://spdx.org/spdxdocs/perfl-%s-%s"):format(version, sum),
  creationInfo = { created = os.date("!%Y-%m-%dT%H:%M:%SZ", epoch),
    creators = { "Tool: perfev-sbom-" .. version } },
  packages = packages, relationships = relations,
  hasExtractedLicensingInfos = { { licenseId = "LicenseRef-public-domain",
    extractedText = "This file has been put into the public domain." } },
}, "\n")
