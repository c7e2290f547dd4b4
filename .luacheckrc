std = "lua54"
max_line_length = 100
files["spec"] = { std = "lua54+busted", max_line_length = 120 } -- sentences of it() are long
files[".busted"] = { std = "lua54" }
