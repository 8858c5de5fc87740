package inpod_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"flyball.dev/cmd/flyball/internal/inpod"
	"flyball.dev/controlplane"
)

// TestTokenIsRenewed runs for hours of virtual time: the token in the file is valid at every moment, and old tokens
// expire.
func TestTokenIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane, err := controlplane.Start(context.Background(), controlplane.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer plane.Stop()
		client := kubernetes.NewForConfigOrDie(plane.Config())
		dir := t.TempDir()
		account := inpod.Account{Namespace: "default", Name: "default"}
		waitFor(t, func() bool {
			_, err := client.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
			return err == nil
		})
		c, err := inpod.NewCredentials(t.Context(), client.CoreV1().RESTClient(), account, []byte("the CA"), dir)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"ca.crt": "the CA", "namespace": "default"} {
			if content, err := os.ReadFile(filepath.Join(dir, name)); string(content) != want || err != nil {
				t.Errorf("%s is %q, %v", name, content, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		warnings := make(chan error, 10)
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Keep(ctx, func(err error) { warnings <- err })
		}()

		tokens := map[string]bool{}
		first := token(t, c)
		for range 5 * 60 {
			time.Sleep(time.Minute)
			now := token(t, c)
			if user := userOf(t, client, now); user != "system:serviceaccount:default:default" {
				t.Fatalf("after %d tokens, the user of the token is %q", len(tokens), user)
			}
			tokens[now] = true
		}
		if user := userOf(t, client, first); user != "" {
			t.Errorf("the first token still belongs to %s", user)
		}
		if len(tokens) < 6 || len(tokens) > 8 || len(warnings) > 0 {
			t.Errorf("%d tokens in five hours, and %d warnings", len(tokens), len(warnings))
		}
		files, err := os.ReadDir(dir)
		if err != nil || len(files) != 3 {
			t.Errorf("%d files, %v", len(files), err)
		}

		_, err = inpod.NewCredentials(t.Context(), client.CoreV1().RESTClient(), inpod.Account{Namespace: "default", Name: "none"}, nil, t.TempDir())
		if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "kubectl create serviceaccount --namespace default none") {
			t.Error(err)
		}
		_, err = inpod.NewCredentials(t.Context(), client.CoreV1().RESTClient(), inpod.Account{Namespace: "none", Name: "default"}, nil, t.TempDir())
		if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "kubectl create namespace none && kubectl create serviceaccount --namespace none default") {
			t.Error(err)
		}
		cancel()
		<-done
	})
}

// TestTokenCannotBeRenewed: the account is deleted while a program runs, and comes back.
func TestTokenCannotBeRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane, err := controlplane.Start(context.Background(), controlplane.Options{WithoutControllers: true})
		if err != nil {
			t.Fatal(err)
		}
		defer plane.Stop()
		client := kubernetes.NewForConfigOrDie(plane.Config())
		accounts := client.CoreV1().ServiceAccounts("default")
		create := func() {
			t.Helper()
			if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		create()
		c, err := inpod.NewCredentials(t.Context(), client.CoreV1().RESTClient(), inpod.Account{Namespace: "default", Name: "a"}, nil, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		warnings := make(chan error, 1000)
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Keep(ctx, func(err error) { warnings <- err })
		}()
		for range 2 {
			before := token(t, c)
			if err := accounts.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Hour)
			if token(t, c) != before || len(warnings) != 1 {
				t.Errorf("%d warnings", len(warnings))
			}
			if err := <-warnings; !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "the token of the service account default/a cannot be renewed") {
				t.Errorf("the warning is %v", err)
			}
			create()
			time.Sleep(11 * time.Second)
			if user := userOf(t, client, token(t, c)); user != "system:serviceaccount:default:a" || len(warnings) != 0 {
				t.Errorf("the account is there again: the token belongs to %q, and there are %d warnings", user, len(warnings))
			}
		}
		cancel()
		<-done
	})
}

func token(t *testing.T, c *inpod.Credentials) string {
	t.Helper()
	content, err := os.ReadFile(c.TokenFile())
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// userOf returns the user of a token, or "" if the API server does not accept it.
func userOf(t *testing.T, client kubernetes.Interface, token string) string {
	t.Helper()
	r, err := client.AuthenticationV1().TokenReviews().Create(t.Context(),
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Status.User.Username
}

// waitFor waits, in virtual time, until a condition is true.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal(errors.New("the condition does not become true"))
}
