package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

func newCompletion(a *app) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that completes commands and flags in a shell",
		Long: `Print a script that completes commands and flags in a shell.

Load it once to try it, or put the line into the shell's start-up file to keep it.`,
		Example: `  source <(aicr completion bash)
  source <(aicr completion zsh)
  aicr completion fish | source
  aicr completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: shells,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return misuse(helpHint(cmd), "want one shell: %s", strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			scripts := map[string]func(io.Writer) error{
				"bash":       func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
				"zsh":        root.GenZshCompletion,
				"fish":       func(w io.Writer) error { return root.GenFishCompletion(w, true) },
				"powershell": root.GenPowerShellCompletionWithDesc,
			}
			script, ok := scripts[args[0]]
			if !ok {
				hint := helpHint(cmd)
				if near := nearest(args[0], shells); near != "" {
					hint = fmt.Sprintf("did you mean %s?", near)
				}
				return misuse(hint, "no completion for %q; want one of %s", args[0], strings.Join(shells, ", "))
			}
			return script(a.env.Stdout)
		},
	}
}
