// Package controlplane has the type of package envtest that has no name there, as in
// controller-runtime.
package controlplane

import (
	"bytes"
	"io"
	"os/exec"
)

// KubeCtl runs kubectl.
type KubeCtl struct {
	// Path is the path of the program; kubectl in PATH if it is empty.
	Path string
	// Opts precede the arguments of each run.
	Opts []string
}

// Run runs the program and returns what it has written.
func (k *KubeCtl) Run(args ...string) (stdout, stderr io.Reader, err error) {
	path := k.Path
	if path == "" {
		path = "kubectl"
	}
	var out, errs bytes.Buffer
	cmd := exec.Command(path, append(append([]string{}, k.Opts...), args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return &out, &errs, err
}
