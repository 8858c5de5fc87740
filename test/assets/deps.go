//go:build deps

package assets

// What controller-runtime's tests need.
import (
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
	_ "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	_ "sigs.k8s.io/controller-runtime"

	_ "flyball.dev/cmd/flyball"
)
