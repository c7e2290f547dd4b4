-- kernel.lua - the kernel under the specs is the one that is shipped.
return require "perfev.sim"
