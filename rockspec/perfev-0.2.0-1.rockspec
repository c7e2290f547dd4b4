rockspec_format = "3.0"
package = "perfev"
version = "0.2.0-1"

-- The tag of the release; `luarocks make` from a checkout downloads nothing.
source = { url = "git+file://.", tag = "v0.2.0" }

description = {
  summary = "Scripting over Linux perf_event_open(2)",
  detailed = [[
Events of the kernel and of your programs in Lua callbacks, sorted by time, with names:
a module for your own programs and perfl, which runs scripts.]],
  license = "MIT",
}

supported_platforms = { "linux" }

-- perfl contains argparse; the module requires it only in perfev.args outside of perfl.
dependencies = { "lua ~> 5.4" }

-- pkg-config finds the libraries and the Lua headers; `make deps` installs both.
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
