package rules

import (
	"go/types"
	"strings"

	"flyball.dev/vet/internal/operator"
)

// many are the kinds of which clusters have many objects in many namespaces.
var many = map[string]bool{
	"k8s.io/api/core/v1.Pod": true, "k8s.io/api/core/v1.Secret": true, "k8s.io/api/core/v1.ConfigMap": true,
	"k8s.io/api/core/v1.Event": true, "k8s.io/api/core/v1.Service": true, "k8s.io/api/core/v1.Endpoints": true,
	"k8s.io/api/core/v1.ServiceAccount": true, "k8s.io/api/core/v1.PersistentVolumeClaim": true,
	"k8s.io/api/apps/v1.Deployment": true, "k8s.io/api/apps/v1.ReplicaSet": true,
	"k8s.io/api/apps/v1.StatefulSet": true, "k8s.io/api/batch/v1.Job": true,
	"k8s.io/api/coordination/v1.Lease": true, "k8s.io/api/discovery/v1.EndpointSlice": true,
	"k8s.io/api/rbac/v1.RoleBinding": true, "k8s.io/api/rbac/v1.Role": true,
}

// ListScope reports Lists of all objects of such a kind where they run for every event.
var ListScope = rule("listscope", "a List of all objects of the cluster for each event", func(p *pass) {
	for _, f := range p.Functions {
		if !p.Hot(f) {
			continue
		}
		for _, call := range f.Calls {
			if call.Verb == "List" && p.unscoped(call) {
				if kind := p.KindOf(call.Object); kind != nil && many[element(kind)] {
					p.reportf(call, "every event lists every %s of the cluster: give a namespace, a selector or an index",
						strings.TrimSuffix(kind.Obj().Name(), "List"))
				}
			}
		}
	}
})

// element returns the path and name of the type whose list a type is.
func element(list *types.Named) string {
	if list.Obj().Pkg() == nil {
		return ""
	}
	return list.Obj().Pkg().Path() + "." + strings.TrimSuffix(list.Obj().Name(), "List")
}

// unscoped reports whether no option of a List selects less than everything.
func (p *pass) unscoped(call *operator.Call) bool {
	if call.Spread() {
		return false
	}
	for _, option := range call.Options {
		if !operator.IsType(p.Info.TypeOf(option), "client", "Limit") && !p.isEmptySelector(option) {
			return false
		}
	}
	return true
}
