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
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

func TestWhatIsLogged(t *testing.T) {
	var logged strings.Builder
	klog.SetLogger(funcr.New(func(_, args string) { logged.WriteString(args) }, funcr.Options{}))
	defer klog.ClearLogger()
	for _, tc := range []struct {
		err  error
		told bool
	}{
		{errors.New("unable to open the storage"), true},
		{errors.New("client disconnected"), false},
		{&net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}, false},
		{fmt.Errorf("apiserver was unable to write a response: %w", syscall.ECONNRESET), false},
		{errors.New(`apiserver received an error that is not an metav1.Status: .data: expected map, got &{hunter2}`), false},
	} {
		logged.Reset()
		utilruntime.HandleError(tc.err)
		if told := logged.Len() > 0; told != tc.told {
			t.Errorf("%v: logged is %t, want %t: %s", tc.err, told, tc.told, logged.String())
		}
	}
}
