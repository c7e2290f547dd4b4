rockspec_format = "3.0"
package = "perfev"
version = "scm-1"

-- `luarocks make` from a checkout; there is nothing to download.
source = { url = "git+file://." }

description = {
  summary = "Scripting over Linux perf_event_open(2)",
  detailed = [[
Events of the kernel and of your programs in Lua callbacks, in time order, with names:
a module for your own programs and perfl, which runs scripts.]],
  license = "MIT",
}

supported_platforms = { "linux" }

-- perfl carries argparse; the module asks for it only in perfev.args outside of perfl.
dependencies = { "lua ~> 5.4" }

-- Found by pkg-config, with Lua's own headers: `make deps` installs both.
build = {
  type = "make",
  build_variables = {},
  install_variables = {
    PREFIX = "$(PREFIX)",
    BINDIR = "$(BINDIR)",
    LUADIR = "$(LUADIR)",
    LIBDIR = "$(LIBDIR)",
  },
}
