// Package help answers --help of the stand-ins. envtest runs each program with it before each start,
// to see what flags there are, and waits for the answer.
//
// The answer is written when this package is initialized, and ends the process. That is early, since
// the package imports little and Go initializes packages that can be in the order of their paths:
// most of what flyball links, which takes longer to initialize than everything else about the answer,
// comes later. For the same reason the texts are files, which a test of cmd/flyball compares with what
// the commands print.
package help

import (
	_ "embed"
	"os"
	"strings"
)

// The texts.
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

// textOf returns the text for a program, or "" for one that is no stand-in.
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
