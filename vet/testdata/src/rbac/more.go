package rbac

// The markers of a package are in any of its files.

// +kubebuilder:rbac:groups=core;"",resources=configmaps,verbs=*
