// Command mirror holds our code beside the Kubernetes code that it mirrors: each declaration with a directive //upstream: names the
// declaration that it follows.
//
//	go run -C test/mirror . diff v1.36.3    shows what changed in the mirrored code since that release
//
// The tests check that all names are declared in the release that go.mod requires, that their source is the source that upstream.sum
// says was read, and that no package of the mirrored trees goes without a reference; run them with -count=1, since the test cache
// does not see the sources. The flag -update writes upstream.sum, and lowers the numbers in long.txt: how many functions of more than
// 14 lines a package of the trees has without a directive. Only modules for tests may
// import k8s.io/kubernetes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"flyball.dev/test/mirror/references"
)

const synopsis = "usage: go run . diff [-list] RELEASE [REFERENCE...]"

const usage = synopsis + `

The command diff compares the Kubernetes code that this module mirrors in two
releases: RELEASE, such as v1.36.3, and the one that go.mod requires. With
references, it compares only these.

A declaration is mirrored if a directive //upstream: names it, or if it is the
generated validation of a kind or used there. Comments, line
breaks and the order of declarations do not count as changes, and a type includes
its methods. The declarations that changed are grouped by our files. Each is
printed as

	changed pkg/apis/core/validation.ValidatePodSpec
		apiserver/kinds/podspec/podspec.go:41 Validate

with the places that mirror it, and a unified diff from the earlier to the later
release. "new" is a declaration that only the later release has, and "gone" one
that only the earlier has. The last line has the counts.

Modules that are not in the module cache are downloaded: k8s.io/kubernetes, and the
versions that the go.mod of RELEASE requires of other modules.

  -list, -q    print the names and places without diffs
`

func main() {
	err := command(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// command runs a command.
func command(args []string) error {
	if len(args) == 0 || args[0] != "diff" {
		if len(args) > 0 && (args[0] == "help" || args[0] == "-h" || args[0] == "--help") {
			return flag.ErrHelp
		}
		return errors.New(synopsis)
	}
	var list bool
	flags := flag.NewFlagSet("diff", flag.ContinueOnError)
	flags.Usage = func() {}
	flags.BoolVar(&list, "list", false, "")
	flags.BoolVar(&list, "q", false, "")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New(synopsis)
	}
	only, err := parse(flags.Args()[1:])
	if err != nil {
		return err
	}
	module, err := references.Read(root)
	if err != nil {
		return err
	}
	version, err := pinned("go.mod")
	if err != nil {
		return err
	}
	older, err := references.Open(flags.Arg(0), os.Stderr)
	if err != nil {
		return err
	}
	newer, err := references.Open(version, os.Stderr)
	if err != nil {
		return err
	}
	changes, err := references.Compare(older, newer, module, only...)
	if err != nil {
		return err
	}
	return changes.Print(os.Stdout, list)
}

// parse parses references.
func parse(args []string) ([]references.Reference, error) {
	var refs []references.Reference
	for _, arg := range args {
		ref, err := references.Parse(arg)
		if err != nil {
			return nil, err
		}
		refs = append(refs, ref)
	}
	return refs, nil
}
