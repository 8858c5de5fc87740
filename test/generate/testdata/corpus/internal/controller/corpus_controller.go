// Package controller has the markers for roles and webhooks.
package controller

// +kubebuilder:rbac:groups=corpus.example.com,resources=corpora,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=corpus.example.com,resources=corpora/status;corpora/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=one;two,namespace=system,verbs=get
// +kubebuilder:rbac:groups="",resources=configmaps,namespace=system,roleName=other,verbs=get;list
// +kubebuilder:rbac:urls=/metrics;/healthz,verbs=get
// +kubebuilder:rbac:groups=apps;extensions,resources=deployments,verbs=*

// +kubebuilder:webhook:path=/mutate,mutating=true,failurePolicy=fail,sideEffects=None,groups=corpus.example.com,resources=corpora,verbs=create;update,versions=v1,name=mcorpus.kb.io,admissionReviewVersions=v1,reinvocationPolicy=IfNeeded,timeoutSeconds=7
// +kubebuilder:webhook:path=/validate,mutating=false,failurePolicy=ignore,matchPolicy=Equivalent,sideEffects=NoneOnDryRun,groups=corpus.example.com,resources=corpora,verbs=create;update;delete,versions=v1;v1beta1,name=vcorpus.kb.io,admissionReviewVersions=v1;v1beta1,serviceName=mine,serviceNamespace=there,servicePort=8443,webhookVersions=v1
// +kubebuilder:webhook:url=https://example.com/validate,mutating=false,failurePolicy=fail,sideEffects=None,groups="",resources=pods,verbs=create,versions=v1,name=pods.kb.io,admissionReviewVersions=v1
// +kubebuilder:webhook:path=/patched,mutating=false,failurePolicy=fail,sideEffects=None,groups="",resources=services,verbs=create,versions=v1,name=services.kb.io,admissionReviewVersions=v1,patch=`{"namespaceSelector":{"matchLabels":{"a":"b"}}}`
// +kubebuilder:webhookconfiguration:mutating=true,name=mutating
// +kubebuilder:webhookconfiguration:mutating=false,name=validating

// Reconcile does nothing.
func Reconcile() {}
