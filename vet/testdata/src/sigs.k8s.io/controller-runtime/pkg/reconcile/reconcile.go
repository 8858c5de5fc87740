package reconcile

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

type Request struct{ types.NamespacedName }

type Result struct {
	Requeue      bool
	RequeueAfter time.Duration
}
