package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"flyball.dev/apiserver/admission"
	"flyball.dev/apiserver/resource"
	"flyball.dev/controlplane/kubeflags"
	_ "flyball.dev/internal/orphans"
)

// measured are the programs of earlier releases with which documents compare measurements.
var measured = []string{"kube-apiserver 1.36"}

// TestOneRelease checks that all that is of a Kubernetes release is of the release of the server: the programs of the
// oracle, their recorded answers, the module of the mirrored code, the kubectl of the scripts, and the documents. The
// libraries, the flags and the discovery documents have tests of their own.
func TestOneRelease(t *testing.T) {
	release := "v" + resource.Release
	if kubernetesVersion != release {
		t.Errorf("the oracle's kube-apiserver is %s, and the server %s", kubernetesVersion, release)
	}
	for file, pattern := range map[string]string{
		"kubernetes/go.mod":       `k8s.io/kubernetes (v\S+)`,
		"../mirror/go.mod":        `k8s.io/kubernetes (v\S+)`,
		"../scripts_test.go":      `kubernetesVersion = "(v.+)"`,
		"testdata/wire.txtar":     `gitVersion: (v\S+)`,
		"../../docs/fidelity.md":  `kube-apiserver (v[0-9.]+\d)`,
		"../../docs/upgrading.md": `from v[0-9.]+ to (v[0-9.]+\d)`,
	} {
		found := regexp.MustCompile(pattern).FindStringSubmatch(read(t, file))
		if found == nil || found[1] != release {
			t.Errorf("%s: %v, and the server is %s", file, found, release)
		}
	}

	minor := release[1:strings.LastIndex(release, ".")]
	named := regexp.MustCompile(`(Kubernetes|kube-apiserver|kube-controller-manager|kubectl) v?(1\.\d+)`)
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	documents = append(documents, "../../README.md", "../../ARCHITECTURE.md", "../../controlplane/kubeflags/flags.go")
	for _, document := range documents {
		if strings.HasSuffix(document, "upgrading.md") {
			continue // names the earlier release
		}
		for _, found := range named.FindAllStringSubmatch(read(t, document), -1) {
			if found[2] != minor && !slices.Contains(measured, found[0]) {
				t.Errorf("%s names %s, and the server is %s", document, found[0], release)
			}
		}
	}
}

// TestFlags checks that the stand-in has the flags of kube-apiserver, of the same types and with the same defaults, if
// kube-apiserver has been built. Its help does not have the hidden ones, so each of these is tried.
func TestFlags(t *testing.T) {
	apiserver, help := helpOf(t)
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	kubeflags.Add(flags)
	ours, theirs := usages(flags.FlagUsagesWrapped(0)), usages(help)
	if len(theirs) < 100 {
		t.Fatalf("the help of kube-apiserver has %d flags", len(theirs))
	}
	for name, usage := range theirs {
		if slices.Contains([]string{"help", "v", "version", "vmodule"}, name) {
			continue // of the command, and not of the table
		}
		if ours[name] != usage {
			t.Errorf("--%s: got %q, want %q", name, ours[name], usage)
		}
	}
	for name := range ours {
		if _, ok := theirs[name]; ok {
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		out, _ := exec.CommandContext(ctx, apiserver, "--"+name+"=none of a value").CombinedOutput()
		cancel()
		if strings.Contains(string(out), "unknown flag") {
			t.Errorf("kube-apiserver has no flag --%s", name)
		}
	}
}

// TestPlugins checks that the server knows the admission plugins of kube-apiserver, if that has been built.
func TestPlugins(t *testing.T) {
	_, help := helpOf(t)
	found := regexp.MustCompile(`list of admission plugins: ([\w, ]+)\.`).FindStringSubmatch(help)
	if found == nil {
		t.Fatal("the help of kube-apiserver has no admission plugins")
	}
	theirs, ours := strings.Split(found[1], ", "), slices.Sorted(slices.Values(admission.Names()))
	if !slices.Equal(ours, theirs) {
		t.Errorf("got  %s\nwant %s", ours, theirs)
	}
}

// helpOf returns kube-apiserver and its help, or skips the test.
func helpOf(t *testing.T) (apiserver, help string) {
	t.Helper()
	b, err := cached()
	if err != nil {
		t.Fatal(err)
	}
	if !b.exist() {
		t.Skip("there is no kube-apiserver in the cache: go run . build")
	}
	out, err := exec.Command(b.apiserver, "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	return b.apiserver, string(out)
}

var (
	flagName    = regexp.MustCompile(`^ +(?:-\w, )?--([\w-]+)(?: (\S+))?(?:  .*)?$`)
	flagDefault = regexp.MustCompile(`\(default (.*?)\)(?: \(DEPRECATED.*)?$`)
)

// usages returns the type and the default of each flag in a help text.
func usages(help string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(help) {
		line = strings.TrimRight(line, " \n")
		found := flagName.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		value := ""
		if d := flagDefault.FindStringSubmatch(line); d != nil && d[1] != "[]" {
			value = d[1]
		}
		all[found[1]] = fmt.Sprintf("%s %s", strings.Replace(found[2], "float32", "float", 1), value)
	}
	return all
}

// read returns the content of a file.
func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
