--- Escapes text for XML and HTML. The text has passed perfev.escape and has no control bytes.

local entities = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["'"] = "&#39;" }

return function(text) return (text:gsub("[&<>\"']", entities)) end
