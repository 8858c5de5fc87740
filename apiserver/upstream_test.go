package apiserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr/funcr"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// TestPatchCopyLimit doubles a document until it would exceed 3 MB.
func TestPatchCopyLimit(t *testing.T) {
	var operations []string
	for n := range 22 {
		operations = append(operations, fmt.Sprintf(`{"op":"copy","from":"/data","path":"/data/copy%d"}`, n))
	}
	patch, err := jsonpatch.DecodePatch([]byte("[" + strings.Join(operations, ",") + "]"))
	if err != nil {
		t.Fatal(err)
	}
	var tooLarge *jsonpatch.AccumulatedCopySizeError
	if _, err := patch.Apply([]byte(`{"data":{"a":"b"}}`)); !errors.As(err, &tooLarge) {
		t.Errorf("a patch that makes megabytes of bytes ended with %v", err)
	}
}

func TestSuppressedErrors(t *testing.T) {
	var logged strings.Builder
	klog.SetLogger(funcr.New(func(_, args string) { logged.WriteString(args) }, funcr.Options{}))
	defer klog.ClearLogger()
	for _, tc := range []struct {
		err    error
		logged bool
	}{
		{errors.New("unable to open the storage"), true},
		{errors.New("client disconnected"), false},
		{errors.New("apiserver was unable to write a application/json response: i/o timeout"), false},
		{&net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}, false},
		{fmt.Errorf("apiserver was unable to write a response: %w", syscall.ECONNRESET), false},
		{errors.New(`apiserver received an error that is not an metav1.Status: .data: expected map, got &{hunter2}`), false},
	} {
		logged.Reset()
		utilruntime.HandleError(tc.err)
		if got := logged.Len() > 0; got != tc.logged {
			t.Errorf("%v: logged is %t, want %t: %s", tc.err, got, tc.logged, logged.String())
		}
	}
}
