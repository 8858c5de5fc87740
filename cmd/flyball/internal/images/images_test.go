package images

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/pods/runtime"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		text, name, err string
		command         []string
	}{
		{text: "controller=sh", name: "controller", command: []string{"sh"}},
		{text: "registry:5000/a/b:v1=sh -c 'exit 3'", name: "registry:5000/a/b:v1", command: []string{"sh", "-c", "exit 3"}},
		{text: `a=sh  "a b"\ c '' "\"$x\y" --k=v`, name: "a", command: []string{"sh", "a b c", "", `"$x\y`, "--k=v"}},
		{text: "a", err: "must have the form NAME=COMMAND"},
		{text: "=sh", err: "must have the form NAME=COMMAND"},
		{text: "a b=sh", err: "must have the form NAME=COMMAND"},
		{text: "a=", err: "the image a has no command"},
		{text: "a= \t", err: "the image a has no command"},
		{text: "a=sh 'x", err: "a quote is not closed"},
		{text: `a=sh \`, err: "a quote is not closed"},
		{text: "a=flyball-none", err: "the image a: cannot run flyball-none: executable file not found in $PATH"},
		{text: "a=/", err: "the image a: cannot run /: "},
	} {
		got, err := Parse(tt.text)
		if err != nil || tt.err != "" {
			if err == nil || tt.err == "" || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v", tt.text, err)
			}
			continue
		}
		if got.Name != tt.name || !slices.Equal(got.Command, tt.command) || got.path == "" {
			t.Errorf("%s: %+v", tt.text, got)
		}
	}
}

func TestImageMatches(t *testing.T) {
	for _, tt := range []struct {
		name, image string
		want        bool
	}{
		{"controller", "controller", true},
		{"controller", "controller:latest", true},
		{"controller", "controller@sha256:ab", true},
		{"controller", "controllers", false},
		{"controller", "example.com/controller", false},
		{"controller:v1", "controller:v1", true},
		{"controller:v1", "controller:v10", false},
		{"controller:v1", "controller", false},
		{"registry:5000/a", "registry:5000/a:v1", true},
		{"registry:5000/a", "registry:5000/ab", false},
		{"*/controller:*", "example.com/x/controller:v1", true},
		{"*", "anything", true},
	} {
		matches := func(pattern string) bool { return runtime.Match(pattern, tt.image) }
		if got := slices.ContainsFunc((&Image{Name: tt.name}).patterns(), matches); got != tt.want {
			t.Errorf("%s is %s: %v", tt.image, tt.name, got)
		}
	}
}

// TestArguments: a pod chooses arguments, and never the program.
func TestArguments(t *testing.T) {
	image := &Image{Command: []string{"./manager", "--dev"}}
	for _, tt := range []struct{ command, args, want []string }{
		{nil, nil, []string{"./manager", "--dev"}},
		{nil, []string{"--leader-elect"}, []string{"./manager", "--dev", "--leader-elect"}},
		{[]string{"/manager"}, nil, []string{"./manager", "--dev"}},
		{[]string{"/manager", "run"}, []string{"--leader-elect"}, []string{"./manager", "--dev", "run", "--leader-elect"}},
		{[]string{"sh"}, []string{"-c", "id"}, []string{"./manager", "--dev", "-c", "id"}},
	} {
		p := &runtime.Process{Container: &corev1.Container{Command: tt.command, Args: tt.args}, Args: slices.Concat(tt.command, tt.args)}
		if got := image.arguments(p); !slices.Equal(got, tt.want) {
			t.Errorf("%q %q: %q", tt.command, tt.args, got)
		}
	}
	if !slices.Equal(image.Command, []string{"./manager", "--dev"}) {
		t.Errorf("the command of the image is %q now", image.Command)
	}
}

// TestFixedVariables: a pod cannot choose what else is executed, nor another API server.
func TestFixedVariables(t *testing.T) {
	for _, name := range []string{"PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "ENV", "PYTHONPATH", "NODE_OPTIONS"} {
		if err := checkEnv(&corev1.Container{Env: []corev1.EnvVar{{Name: "A"}, {Name: name}}}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := checkEnv(&corev1.Container{Env: []corev1.EnvVar{{Name: "HOME"}, {Name: "LDAP"}, {Name: "MY_PATH"}}}); err != nil {
		t.Error(err)
	}
	r := &Runner{base: []string{"PATH=/bin"}}
	got := r.environment(&runtime.Process{Env: []string{"A=1", "PATH=/tmp", "LD_PRELOAD=/x", "KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBECONFIG=/x", "OTHER_SERVICE_HOST=10.96.0.2"}})
	if !slices.Equal(got, []string{"PATH=/bin", "A=1", "OTHER_SERVICE_HOST=10.96.0.2"}) {
		t.Errorf("the environment is %q", got)
	}
}

// TestCheckTarget: no volume takes the place of a file of the host, or is where programs look for code.
func TestCheckTarget(t *testing.T) {
	image := &Image{path: "/tmp/flyball-bin/manager"}
	for target, want := range map[string]bool{
		"/var/run/secrets/kubernetes.io/serviceaccount": true,
		"/run/secrets/tokens":                           true,
		"/tmp/k8s-webhook-server/serving-certs":         true,
		"/tmp/flyball-none/x":                           true,
		"/flyball-none":                                 true,
		"/flyball-none/etc":                             true,
		"/":                                             false,
		"/etc":                                          false,
		"/etc/ld.so.preload":                            false,
		"/etc/flyball-none":                             false,
		"/usr/local/lib/flyball-none":                   false,
		"/bin/sh":                                       false,
		"/tmp":                                          false,
		"/tmp/flyball-bin":                              false,
		"/tmp/flyball-bin/manager":                      false,
		"/var/run/secretsx":                             false,
		"/root/.bashrc":                                 false,
		"/proc/self":                                    false,
	} {
		if err := checkTarget(target, image); (err == nil) != want {
			t.Errorf("%s: %v", target, err)
		}
	}
}
