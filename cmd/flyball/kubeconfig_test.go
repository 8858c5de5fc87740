package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/controlplane"
)

// TestKubeconfigForAnotherUser makes a kubeconfig by the command, and uses it.
func TestKubeconfigForAnotherUser(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	}()
	admin, file := filepath.Join(t.TempDir(), "admin"), filepath.Join(t.TempDir(), "ann")
	if err := os.WriteFile(admin, plane.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) error {
		cmd := root()
		cmd.SetArgs(append([]string{"kubeconfig", "--kubeconfig", admin}, args...))
		return cmd.ExecuteContext(t.Context())
	}
	if err := run("--user", "ann", "--group", "staff", "--group", "night", "--output", file); err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || got.Status.UserInfo.Username != "ann" || strings.Join(got.Status.UserInfo.Groups, " ") != "night staff system:authenticated" {
		t.Errorf("the user is %+v, %v", got.Status.UserInfo, err)
	}
	if _, err := client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("secrets: %v", err)
	}
	if err := run("--user", "eve", "--group", "system:masters"); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed") {
		t.Errorf("an administrator: %v", err)
	}
	if err := run("--user", ""); err == nil || !strings.Contains(err.Error(), "must not be empty") {
		t.Errorf("no user: %v", err)
	}
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("127.0.0.1 localhost\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, tc := range []struct{ variable, want string }{
		{admin, ""},
		{filepath.Join("no", "file"), "there is no kubeconfig " + filepath.Join("no", "file")},
		{broken, "the kubeconfig " + broken + ": "},
		{"", "there is no kubeconfig .flyball/kubeconfig"},
	} {
		t.Setenv("KUBECONFIG", tc.variable)
		cmd := root()
		cmd.SetArgs([]string{"kubeconfig", "--user", "ann", "--output", file})
		if err := cmd.ExecuteContext(t.Context()); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("KUBECONFIG=%s: %v; want %q", tc.variable, err, tc.want)
		}
	}
}
