package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/multichecker"

	"flyball.dev/cmd/flyball/internal/generate"
	"flyball.dev/cmd/flyball/internal/process"
	"flyball.dev/cmd/flyball/internal/progress"
	"flyball.dev/cmd/flyball/internal/terminal"
	"flyball.dev/vet"
)

// vetCommand returns the command "flyball vet", which looks for mistakes in the source of operators. It has the flags
// of a multichecker.
func vetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "vet [-RULE ...] [-RULE.FLAG ...] [-fix [-diff]] [-json] [-test] [PACKAGE ...]",
		Short: "Look for mistakes in the source of an operator",
		Long: `Look for mistakes in the source of an operator, on this runtime or on controller-runtime.

The default package is the one in this folder. -RULE runs this rule and no rule that is not named, and
-RULE=false runs all other rules. -fix applies the suggested fixes, -diff prints them, -json prints the
findings as JSON, and -test includes test files. The exit code is 3 if there are findings, 1 if packages
do not compile, and 0 otherwise. "flyball vet help" lists the rules, and "flyball vet help RULE"
describes one. The comment //flyball:ignore RULE REASON silences a rule on its line and on the next.

The same rules run as part of go vet: go vet -vettool=$(which flyball) ./...`,
		Example: `  flyball vet ./...
  flyball vet -rbac ./...
  flyball vet -fix -diff ./...`,
		DisableFlagsInUseLine: true,
		DisableFlagParsing:    true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
				return cmd.Help()
			}
			if !slices.ContainsFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") }) {
				args = append(args, ".")
			}
			return vetPackages(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), append([]string{"-test=false"}, args...))
		},
	}
}

// vetName is the program name that makes this program run as the multichecker.
const vetName = "flyball-vet"

// vetPackages runs the multichecker in another process, because the multichecker prints to standard error and exits.
// For a package that does not compile, vetPackages prints the errors of the compiler. It omits the type checker's
// errors and the error of each rule, which repeat them.
func vetPackages(ctx context.Context, out, errOut io.Writer, args []string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	var stdout, printed bytes.Buffer
	cmd := process.Command(ctx, program, args...)
	cmd.Args[0], cmd.Stdout, cmd.Stderr = vetName, &stdout, &printed
	cmd.Env = driverEnvironment(program)
	stop := progress.Start(errOut, progress.Doing("flyball: loading packages and their dependencies"))
	err = cmd.Run()
	stop()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	if _, err := out.Write(stdout.Bytes()); err != nil {
		return err
	}
	code := cmd.ProcessState.ExitCode()
	if code != doesNotCompile {
		_, err = errOut.Write(printed.Bytes())
	} else {
		wd, _ := os.Getwd() // without it, paths remain absolute
		compiler, findings := compilerErrors(printed.String(), wd)
		_, err = io.WriteString(errOut, terminal.Error(errOut, compiler)+findings)
	}
	if err != nil || code == 0 {
		return err
	}
	return exitCode(code)
}

// doesNotCompile is the exit code of the multichecker if packages do not compile.
const doesNotCompile = 1

// maxErrors is how many errors are printed, as compilers do.
const maxErrors = 10

// skipped matches the errors that rules report for a package that does not compile.
var skipped = regexp.MustCompile(`^[a-z]+: (analysis skipped due to errors in package|failed prerequisites: .*)$`)

// driver matches the beginning of an error of the go command, which runs in the driver of the packages.
var driver = regexp.MustCompile(`^flyball vet: .*: exit status \d+: err: exit status \d+: stderr: `)

// compilerErrors separates the output of the multichecker into the errors of the compiler, each once, and the findings
// in the packages that compile. Paths below folder become relative to it.
func compilerErrors(printed, folder string) (compiler, findings string) {
	lines := strings.Split(strings.TrimRight(printed, "\n"), "\n")
	end := slices.IndexFunc(lines, skipped.MatchString)
	if end < 0 {
		end = len(lines)
	}
	var out, rest strings.Builder
	seen := map[string]bool{}
	count, repeated := 0, false
	for _, line := range lines[:end] {
		line = driver.ReplaceAllString(strings.TrimPrefix(line, "-: "), "flyball vet: ")
		switch {
		case strings.HasPrefix(line, "# "), line == "too many errors", strings.HasSuffix(line, ": too many errors"):
			continue
		case !strings.HasPrefix(line, "\t"): // otherwise it belongs to the one before
			line = strings.TrimPrefix(strings.TrimPrefix(line, folder+string(filepath.Separator)), "."+string(filepath.Separator))
			repeated = seen[line]
			if !repeated {
				count++
			}
			seen[line] = true
		}
		if !repeated && count <= maxErrors {
			out.WriteString(generate.WithHint(line) + "\n")
		}
	}
	if count > maxErrors {
		out.WriteString("too many errors\n")
	}
	for _, line := range lines[end:] {
		if !skipped.MatchString(line) {
			rest.WriteString(line + "\n")
		}
	}
	return out.String(), rest.String()
}

// isVetTool reports whether go vet runs this program as its tool: to ask for its version or its flags, or to check a
// package.
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

// runVet runs the multichecker with args and exits.
func runVet(name string, args []string) {
	rules := append(vet.Analyzers(), vet.Optional()...)
	signal.Reset() // the multichecker has no context that a signal could end
	// Remove the flags that other packages have defined.
	flag.CommandLine = flag.NewFlagSet(name, flag.ExitOnError)
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "The rules are: %s.\nRun '%s help' for what they find and for the other flags.\n", names(rules), name)
	}
	flag.CommandLine.Usage = flag.Usage
	os.Args = append([]string{name}, append(optionalOff(args, rules), args...)...)
	multichecker.Main(rules...)
}

// optionalOff returns the flags that disable the optional rules. It returns none if args enable a rule, because then
// only enabled rules run.
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
