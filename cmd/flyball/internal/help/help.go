// Package help answers --help for the stand-ins. Before each start of a program, envtest runs the program with --help
// to find its flags, and waits for the answer.
//
// The package writes the answer and exits when it is initialized. It imports little, and Go initializes packages in the
// order of their paths as far as dependencies permit, so the answer comes before the initialization of most packages of
// flyball, which takes longer than everything else. For the same reason the texts are files; a test of cmd/flyball
// compares them with the output of the commands.
package help

import (
	_ "embed"
	"os"
	"strings"
)

// The help texts.
var (
	//go:embed kube-apiserver.txt
	KubeAPIServer string
	//go:embed etcd.txt
	Etcd string
)

func init() {
	if len(os.Args) == 2 && os.Args[1] == "--help" {
		if text := textOf(os.Args[0]); text != "" {
			if _, err := os.Stdout.WriteString(text); err != nil {
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
}

// textOf returns the help text of a stand-in, or "" for any other program.
func textOf(program string) string {
	name := program[strings.LastIndexAny(program, `/\`)+1:]
	switch strings.TrimSuffix(name, ".exe") {
	case "kube-apiserver":
		return KubeAPIServer
	case "etcd":
		return Etcd
	}
	return ""
}
