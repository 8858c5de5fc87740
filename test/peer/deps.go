//go:build scratch

package peer

// Dependencies of the scratch module, in addition to flyball.dev's own.
import (
	_ "github.com/google/gofuzz"
	_ "github.com/onsi/ginkgo/v2"
	_ "github.com/onsi/gomega"
	_ "github.com/onsi/gomega/gbytes"
	_ "github.com/onsi/gomega/gexec"
	_ "github.com/onsi/gomega/ghttp"
	_ "github.com/onsi/gomega/gleak"
	_ "github.com/onsi/gomega/gstruct"
	_ "github.com/prometheus/client_golang/prometheus/testutil"
	_ "github.com/prometheus/client_model/go"
	_ "go.uber.org/goleak"
	_ "golang.org/x/mod/semver"
	_ "gomodules.xyz/jsonpatch/v2"
	_ "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	_ "k8s.io/utils/ptr"
	_ "sigs.k8s.io/controller-runtime"

	_ "flyball.dev/cmd/flyball"
	_ "flyball.dev/ctrl"
	_ "flyball.dev/ctrl/metrics/filters"
)
