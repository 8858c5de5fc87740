package rbac

// The markers of a package are in any of its files.

// +kubebuilder:rbac:groups=core;"",resources=configmaps,verbs=*

// +kubebuilder:rbac:groups=hive.example.com/v1,resources=clusterpools,verbs=get;list // want `the group of a role has no version, so this grants nothing: write hive.example.com without /v1`
