package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/multichecker"

	"flyball.dev/vet"
)

// vetCommand returns the command that looks for mistakes in the source of operators. Its flags are
// those of every multichecker.
func vetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "vet [-RULE ...] [-RULE.FLAG ...] [-fix [-diff]] [-json] [-test] PACKAGE ...",
		Short: "Look for mistakes in the source of an operator",
		Long: `Look for mistakes in the source of an operator, on this runtime or on controller-runtime.

With the flags of rules only those are run, and with -RULE=false all but those. The exit code is 3
if there are findings, 1 if packages do not compile, otherwise 0. "flyball vet help" lists the rules
and "flyball vet help RULE" describes one. The comment //flyball:ignore RULE REASON silences a rule
on its line and on the next.

The same rules run as part of go vet: go vet -vettool=$(which flyball) ./...`,
		DisableFlagParsing: true,
		Run: func(cmd *cobra.Command, args []string) {
			if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
				cmd.Help()
				return
			}
			if !slices.ContainsFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") }) {
				args = append(args, ".")
			}
			runVet("flyball vet", append([]string{"-test=false"}, args...))
		},
	}
}

// isVetTool reports whether go vet has called this program as its tool: to ask for its version or
// its flags, or to check one package.
func isVetTool(args []string) bool {
	if len(args) == 0 {
		return false
	}
	last := len(args) - 1
	if slices.ContainsFunc(args[:last], func(arg string) bool { return !strings.HasPrefix(arg, "-") }) {
		return false
	}
	return args[last] == "-V=full" || args[last] == "-flags" || strings.HasSuffix(args[last], ".cfg")
}

// runVet runs the rules with the arguments of a multichecker and exits.
func runVet(name string, args []string) {
	rules := append(vet.Analyzers(), vet.Optional()...)
	signal.Reset() // the multichecker has no context that a signal could end
	// Other packages define flags of the process.
	flag.CommandLine = flag.NewFlagSet(name, flag.ExitOnError)
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "The rules are: %s.\nRun '%s help' for what they find and for the other flags.\n", names(rules), name)
	}
	flag.CommandLine.Usage = flag.Usage
	os.Args = append([]string{name}, append(optionalOff(args, rules), args...)...)
	multichecker.Main(rules...)
}

// optionalOff returns the flags that disable the rules that are off by default. If one rule is
// enabled by its flag, only those that are enabled run, so then there are none.
func optionalOff(args []string, rules []*analysis.Analyzer) []string {
	for _, arg := range args {
		name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		isRule := slices.ContainsFunc(rules, func(a *analysis.Analyzer) bool { return a.Name == name })
		if strings.HasPrefix(arg, "-") && isRule && (!hasValue || value == "true" || value == "1") {
			return nil
		}
	}
	var off []string
	for _, rule := range vet.Optional() {
		off = append(off, "-"+rule.Name+"=false")
	}
	return off
}

func names(rules []*analysis.Analyzer) string {
	var all []string
	for _, rule := range rules {
		all = append(all, rule.Name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
