# bash completion for perfl; printed by `perfl completion bash`.
_perfl()
{
	local line word list=() IFS=$'\n'
	# Bash splits words at : and =, perfl does not.
	local text=${COMP_LINE:0:COMP_POINT} words
	IFS=$' \t\n' read -ra words <<< "$text"
	[[ $text == *[[:space:]] ]] && words+=("")
	word=${words[-1]}
	COMPREPLY=()
	for line in $(perfl completion -- "${words[@]:1}" 2> /dev/null); do
		case $line in
		$'\tfiles') compopt -o filenames; list+=($(compgen -f -- "$word"));;
		$'\tcommands') list+=($(compgen -c -- "$word"));;
		*) list+=("${line%%$'\t'*}");;
		esac
	done
	local kept=${COMP_WORDS[COMP_CWORD]} cut=
	[[ $word != "$kept" && $word == *"$kept" ]] && cut=${word%"$kept"}
	[[ $kept == [:=] ]] && cut=$word
	for line in "${list[@]}"; do
		[[ $line == "$word"* ]] && COMPREPLY+=("${line#"$cut"}")
	done
	[[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=/,:] ]] && compopt -o nospace
}
complete -F _perfl perfl
