"""What a shell loads to complete command lines of `rukpak`. The words come from `rukpak __complete`."""

from __future__ import annotations

ANSWER = "__complete"
"""The verb that answers, which help does not list; cobra calls it the same."""

_BASH = """\
# Load it with: source <(rukpak completion bash)
_rukpak() {
    local IFS=$'\\n' found last
    found=($(rukpak __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    [ "${#found[@]}" -gt 0 ] || return
    last=$((${#found[@]} - 1))
    [ "${found[last]}" = ":0" ] && compopt -o default
    unset "found[last]"
    COMPREPLY=("${found[@]%%$'\\t'*}")
}
complete -F _rukpak rukpak
"""
_ZSH = """\
#compdef rukpak
# Load it with: source <(rukpak completion zsh)
_rukpak() {
    local -a found described
    found=("${(@f)$(rukpak __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    local directive=${found[-1]}
    described=("${(@)found[1,-2]//:/\\\\:}")
    described=("${(@)described/$'\\t'/:}")
    (( ${#described} )) && _describe rukpak described
    [[ $directive == :0 ]] && _files
}
compdef _rukpak rukpak
"""
_FISH = """\
# Load it with: rukpak completion fish | source
function __rukpak_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found (rukpak __complete $words[2..-1] 2>/dev/null)
    if test (count $found) -gt 1
        printf '%s\\n' $found[1..-2]
    end
    if test "$found[-1]" = ':0'
        __fish_complete_path (commandline -ct)
    end
end
complete -c rukpak -f -a '(__rukpak_complete)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
