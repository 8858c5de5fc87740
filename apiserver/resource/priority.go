package resource

import "k8s.io/apimachinery/pkg/runtime/schema"

// Priority orders groups, and the versions within a group. Higher priorities come first.
type Priority struct{ Group, Version int32 }

// priorities are the priorities of the built-in group versions.
//
//upstream:pkg/controlplane/apiserver.DefaultGenericAPIServicePriorities
//upstream:cmd/kube-apiserver/app.apiVersionPriorities
var priorities = map[schema.GroupVersion]Priority{
	{Group: "apiregistration.k8s.io", Version: "v1"}:       {20000, 18},
	{Group: "", Version: "v1"}:                             {18000, 1},
	{Group: "apps", Version: "v1"}:                         {17800, 15},
	{Group: "events.k8s.io", Version: "v1"}:                {17750, 15},
	{Group: "authentication.k8s.io", Version: "v1"}:        {17700, 15},
	{Group: "authorization.k8s.io", Version: "v1"}:         {17600, 15},
	{Group: "autoscaling", Version: "v1"}:                  {17500, 15},
	{Group: "autoscaling", Version: "v2"}:                  {17500, 30},
	{Group: "batch", Version: "v1"}:                        {17400, 15},
	{Group: "certificates.k8s.io", Version: "v1"}:          {17300, 15},
	{Group: "networking.k8s.io", Version: "v1"}:            {17200, 15},
	{Group: "policy", Version: "v1"}:                       {17100, 15},
	{Group: "rbac.authorization.k8s.io", Version: "v1"}:    {17000, 15},
	{Group: "storage.k8s.io", Version: "v1"}:               {16800, 15},
	{Group: "apiextensions.k8s.io", Version: "v1"}:         {16700, 15},
	{Group: "admissionregistration.k8s.io", Version: "v1"}: {16700, 15},
	{Group: "scheduling.k8s.io", Version: "v1"}:            {16600, 15},
	{Group: "coordination.k8s.io", Version: "v1"}:          {16500, 15},
	{Group: "node.k8s.io", Version: "v1"}:                  {16300, 15},
	{Group: "discovery.k8s.io", Version: "v1"}:             {16200, 15},
	{Group: "resource.k8s.io", Version: "v1"}:              {16200, 21},
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}: {16100, 21},
	{Group: "storagemigration.k8s.io", Version: "v1"}:      {15800, 15},
	{Group: "metrics.k8s.io", Version: "v1beta1"}:          {100, 100}, // of metrics-server's APIService
}

// customPriority is the priority of all custom resources.
//
//upstream:pkg/controlplane/controller/crdregistration.crdRegistrationController.handleVersionUpdate
var customPriority = Priority{1000, 100}

// PriorityOf returns the priority of a group version, and whether the group version is built in.
func PriorityOf(gv schema.GroupVersion) (p Priority, builtin bool) {
	if p, ok := priorities[gv]; ok {
		return p, true
	}
	return customPriority, false
}
