package main

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"flyball.dev/cmd/flyball/internal/help"
)

var update = flag.Bool("update", false, "write the texts of --help")

// TestHelpOfStandIns compares the prepared help texts with the output of the commands.
func TestHelpOfStandIns(t *testing.T) {
	var server, etcd bytes.Buffer
	cmd := kubeAPIServer()
	cmd.SetOut(&server)
	cmd.SetArgs([]string{"-h"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	printEtcdUsage(&etcd)
	for _, tc := range []struct{ file, early, want string }{
		{"kube-apiserver.txt", help.KubeAPIServer, server.String()},
		{"etcd.txt", help.Etcd, etcd.String()},
	} {
		switch {
		case *update:
			if err := os.WriteFile("internal/help/"+tc.file, []byte(tc.want), 0o644); err != nil {
				t.Fatal(err)
			}
		case tc.early != tc.want:
			t.Errorf("%s is not what the command prints; run this test with -update", tc.file)
		}
	}
}
