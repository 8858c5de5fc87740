package kubeflags

import (
	"time"

	"flyball.dev/apiserver/admission"
	"flyball.dev/controlplane"
)

// deletionDelay is the time that kube-apiserver takes to remove an object, with an etcd that does not sync to disk: 5
// to 6 ms on an idle machine.
const deletionDelay = 5 * time.Millisecond

// alwaysEnabled are admission plugins that a control plane disables unless their controllers run. kube-apiserver
// enables them in any case, because it does not know which controllers run.
var alwaysEnabled = []string{admission.ServiceAccount, admission.StorageObjectInUseProtection, admission.TaintNodesByCondition}

// AsProgram makes a control plane behave like the program kube-apiserver where no flag does: a deletion takes as long
// as with etcd, and admission plugins are enabled without their controllers.
func AsProgram(o *controlplane.Options) {
	o.DeletionDelay = deletionDelay
	o.Admission.Enable = append(o.Admission.Enable, alwaysEnabled...)
}
