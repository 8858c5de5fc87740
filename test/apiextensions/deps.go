//go:build scratch

package apiextensions

// Dependencies of the scratch module, in addition to the dependencies of package fixtures.
import (
	_ "github.com/google/gnostic-models/openapiv2"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/uuid"
	_ "github.com/stretchr/testify/assert"
	_ "github.com/stretchr/testify/require"
	_ "go.etcd.io/etcd/client/pkg/v3/transport"
	_ "gopkg.in/evanphx/json-patch.v4"
	_ "k8s.io/api/autoscaling/v1"
	_ "k8s.io/client-go/restmapper"
	_ "k8s.io/component-base/featuregate/testing"
	_ "k8s.io/klog/v2/ktesting"
	_ "k8s.io/kube-openapi/pkg/spec3"
	_ "k8s.io/utils/ptr"
	_ "sigs.k8s.io/yaml"
)
