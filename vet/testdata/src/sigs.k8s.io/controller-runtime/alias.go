package controllerruntime

import (
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type (
	Request = reconcile.Request
	Result  = reconcile.Result
	Manager = manager.Manager
	Options = manager.Options
)

var (
	NewManager             = manager.New
	NewControllerManagedBy = builder.ControllerManagedBy
	SetControllerReference = controllerutil.SetControllerReference
	CreateOrUpdate         = controllerutil.CreateOrUpdate
)
