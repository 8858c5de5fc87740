package sandbox

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestProgramsOfImage looks for programs of an image by name and path, as the shell of a container does.
func TestProgramsOfImage(t *testing.T) {
	image := &Image{Files: map[string]string{"/app/run": "#!/bin/sh", "/usr/bin/ctl": "#!/bin/sh", "/opt/bin/tool": "#!/bin/sh", "/app/data": "x"}}
	path := func(value string) []corev1.EnvVar { return []corev1.EnvVar{{Name: "PATH", Value: value}} }
	for _, tt := range []struct {
		name      string
		container corev1.Container
		want      bool
	}{
		{"/app/run", corev1.Container{}, true},
		{"/app/../app/run", corev1.Container{}, true},
		{"./run", corev1.Container{WorkingDir: "/app"}, true},
		{"../app/run", corev1.Container{WorkingDir: "/opt"}, true},
		{"bin/tool", corev1.Container{WorkingDir: "/opt/"}, true},
		{"./run", corev1.Container{}, false},
		{"./data", corev1.Container{WorkingDir: "/app"}, false},
		{"run", corev1.Container{WorkingDir: "/app"}, false},
		{"ctl", corev1.Container{}, true},
		{"tool", corev1.Container{}, false},
		{"tool", corev1.Container{Env: path("/opt/bin:/usr/bin")}, true},
		{"ctl", corev1.Container{Env: path("/opt/bin")}, false},
		{"run", corev1.Container{WorkingDir: "/app", Env: path(".")}, true},
		{"ctl", corev1.Container{Env: path("$(OTHER)/bin")}, true}, // not known, so as without
		{"", corev1.Container{}, false},
	} {
		if got := image.has(&tt.container, tt.name); got != tt.want {
			t.Errorf("%q in %+v: %v", tt.name, tt.container, got)
		}
	}
}

// TestLackingFiles lists files that only an image can have.
func TestLackingFiles(t *testing.T) {
	c := &corev1.Container{VolumeMounts: []corev1.VolumeMount{{MountPath: "/shared/"}, {MountPath: "/config/file"}}}
	image := &Image{Files: map[string]string{"/app/run": "#!/bin/sh"}}
	for name, want := range map[string]bool{
		"/usr/local/bin/argocd": true, "/app/other": true, "/sharedx": true, "/config": true,
		"/app/run": false, "/app": false, "/shared": false, "/shared/a": false, "/config/file": false, "/etc/hosts": false, "/tmp/a": false, "/dev/null": false,
		"/var/run/secrets/kubernetes.io/serviceaccount/token": false,
	} {
		if got := image.lacks(c, name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if all := (&corev1.Container{VolumeMounts: []corev1.VolumeMount{{MountPath: "/"}}}); image.lacks(all, "/usr/bin/x") {
		t.Error("a file of a volume at / counts as missing")
	}
}
