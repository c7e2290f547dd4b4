# fish completion for perfl; printed by `perfl completion fish`.
function __perfl_complete
	set -l words (commandline -opc) (commandline -ct)
	for line in (perfl completion -- $words[2..] 2> /dev/null)
		switch $line
			case \tfiles
				__fish_complete_path (commandline -ct)
			case \tcommands
				__fish_complete_command
			case '*'
				echo $line
		end
	end
end
complete -c perfl -f -a '(__perfl_complete)'
