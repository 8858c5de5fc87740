package encryption_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// TestUnreadable has Secrets that cannot be decrypted, because their key is not in the configuration any more. They cannot be
// read, changed or deleted as usual, and the others can. An unsafe deletion removes them, and no others.
func TestUnreadable(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "encryption.yaml")
	create := func(name string) func(kubernetes.Interface) {
		return func(c kubernetes.Interface) {
			s := secret(name)
			s.Finalizers = []string{"example.com/finalizer"}
			if _, err := c.CoreV1().Secrets("default").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	configure(t, file, provider("aesgcm", "a"))
	with(t, dir, file, false, create("lost"))
	configure(t, file, provider("aesgcm", "b"))
	with(t, dir, file, false, create("good"))

	const reason = "data from the storage is not transformable revision=0: "
	with(t, dir, file, false, func(c kubernetes.Interface) {
		ctx, secrets := t.Context(), c.CoreV1().Secrets("default")
		all, err := secrets.List(ctx, metav1.ListOptions{})
		details := statusOf(t, err, metav1.StatusReasonStoreReadError).Details
		if details.Kind != "secrets" || len(details.Causes) != 1 || details.Causes[0].Field != "/registry/secrets/default/lost" {
			t.Errorf("list: %+v, details %+v", all, details)
		}
		if want := "failed to read one or more secrets from the storage: "; !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), reason) {
			t.Errorf("list: %v", err)
		}
		if err := check(ctx, c, "good"); err != nil {
			t.Error(err)
		}

		err = check(ctx, c, "lost")
		if statusOf(t, err, metav1.StatusReasonInternalError); !strings.HasPrefix(err.Error(), "Internal error occurred: StorageError: corrupt object, Code: ") || !strings.Contains(err.Error(), reason) {
			t.Errorf("get: %v", err)
		}
		_, err = secrets.Update(ctx, secret("lost"), metav1.UpdateOptions{})
		if statusOf(t, err, metav1.StatusReasonInternalError); !strings.HasPrefix(err.Error(), "Internal error occurred: "+reason) {
			t.Errorf("update: %v", err)
		}
		_, err = secrets.Create(ctx, secret("lost"), metav1.CreateOptions{})
		statusOf(t, err, metav1.StatusReasonAlreadyExists)
		err = secrets.Delete(ctx, "lost", metav1.DeleteOptions{})
		if statusOf(t, err, metav1.StatusReasonInternalError); !strings.Contains(err.Error(), reason) {
			t.Errorf("delete: %v", err)
		}
		if err := secrets.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err == nil {
			t.Error("a collection is deleted that cannot be read")
		}
		w, err := secrets.Watch(ctx, metav1.ListOptions{SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
		if err != nil {
			t.Fatal(err)
		}
		last := watch.Event{}
		for e := range w.ResultChan() {
			last = e
		}
		if last.Type != watch.Error || !strings.Contains(apierrors.FromObject(last.Object).Error(), reason) {
			t.Errorf("watch: %+v", last)
		}
		deleteUnsafely(t, c)
	})
}

// deleteUnsafely deletes Secrets with the option to ignore errors of reads.
func deleteUnsafely(t *testing.T, c kubernetes.Interface) {
	t.Helper()
	ctx, secrets := t.Context(), c.CoreV1().Secrets("default")
	unsafe := metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: new(true)}
	dry, other := unsafe, unsafe
	dry.DryRun, other.GracePeriodSeconds = []string{metav1.DryRunAll}, new(int64(1))
	statusOf(t, secrets.Delete(ctx, "good", unsafe), metav1.StatusReasonConflict)
	statusOf(t, secrets.Delete(ctx, "none", unsafe), metav1.StatusReasonNotFound)
	statusOf(t, secrets.Delete(ctx, "lost", other), metav1.StatusReasonInvalid)
	statusOf(t, secrets.DeleteCollection(ctx, unsafe, metav1.ListOptions{}), metav1.StatusReasonInvalid)
	if err := secrets.Delete(ctx, "lost", dry); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	if err := check(ctx, c, "lost"); err == nil || apierrors.IsNotFound(err) {
		t.Errorf("after a dry run: %v", err)
	}
	w, err := secrets.Watch(ctx, metav1.ListOptions{ResourceVersion: version(t, c, "good")})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	err = c.CoreV1().RESTClient().Delete().AbsPath("/api/v1/namespaces/default/secrets/lost").
		Param("ignoreStoreReadErrorWithClusterBreakingPotential", "true").Do(ctx).Error() // as in docs/running.md
	if err != nil {
		t.Errorf("an unsafe deletion: %v", err)
	}
	if e := <-w.ResultChan(); e.Type != watch.Error || !strings.Contains(apierrors.FromObject(e.Object).Error(), "saw a DELETED event, but object data is corrupt - ") {
		t.Errorf("the watch of a deletion: %+v", e)
	}
	list, err := secrets.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "good" {
		t.Errorf("after the deletion: %+v, %v", list, err)
	}
}

// statusOf returns the status of an error, which must have a reason.
func statusOf(t *testing.T, err error, reason metav1.StatusReason) metav1.Status {
	t.Helper()
	var known apierrors.APIStatus
	if !errors.As(err, &known) || known.Status().Reason != reason {
		t.Fatalf("error %v, want %s", err, reason)
	}
	return known.Status()
}
