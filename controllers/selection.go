package controllers

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// aliases are the other names of controllers.
//
//upstream:cmd/kube-controller-manager/app.ControllerDescriptor.GetAliases
var aliases = map[string]string{
	"clusterrole-aggregation":  "clusterrole-aggregation-controller",
	"cronjob":                  "cronjob-controller",
	"csrapproving":             "certificatesigningrequest-approving-controller",
	"csrcleaner":               "certificatesigningrequest-cleaner-controller",
	"csrsigning":               "certificatesigningrequest-signing-controller",
	"daemonset":                "daemonset-controller",
	"deployment":               "deployment-controller",
	"disruption":               "disruption-controller",
	"endpoint":                 "endpoints-controller",
	"endpointslice":            "endpointslice-controller",
	"endpointslicemirroring":   "endpointslice-mirroring-controller",
	"ephemeral-volume":         "ephemeral-volume-controller",
	"garbagecollector":         "garbage-collector-controller",
	"horizontalpodautoscaling": "horizontal-pod-autoscaler-controller",
	"job":                      "job-controller",
	"namespace":                "namespace-controller",
	"nodelifecycle":            "node-lifecycle-controller",
	"persistentvolume-binder":  "persistentvolume-binder-controller",
	"podgc":                    "pod-garbage-collector-controller",
	"pv-protection":            "persistentvolume-protection-controller",
	"pvc-protection":           "persistentvolumeclaim-protection-controller",
	"replicaset":               "replicaset-controller",
	"replicationcontroller":    "replicationcontroller-controller",
	"resourcequota":            "resourcequota-controller",
	"root-ca-cert-publisher":   "root-ca-certificate-publisher-controller",
	"service":                  "service-lb-controller",
	"serviceaccount":           "serviceaccount-controller",
	"serviceaccount-token":     "serviceaccount-token-controller",
	"statefulset":              "statefulset-controller",
	"ttl-after-finished":       "ttl-after-finished-controller",
}

// Variable is the environment variable that selects the controllers of the stand-in for kube-apiserver and of envtest's
// environments, in the syntax of [Unselected].
const Variable = "FLYBALL_CONTROLLERS"

// None is the list that selects no controller.
const None = "none"

// Unselected returns the names of the controllers that a list does not select, for [Options.Without].
//
// The list has the syntax of kube-controller-manager's flag --controllers. Its items are separated by commas: "*" selects
// all controllers, NAME selects a controller, and -NAME excludes it. The first mention of a controller counts. The list
// [None] selects no controller. The names are [Names] and kube-controller-manager's aliases. An unknown name is an error.
//
//upstream:k8s.io/controller-manager/app.IsControllerEnabled
func Unselected(list string) (without []string, err error) {
	all, selected, everything := Names(), map[string]bool{}, false
	if strings.TrimSpace(list) == None {
		return all, nil
	}
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item == "*" {
			everything = true
			continue
		}
		name, excluded := strings.CutPrefix(item, "-")
		if canonical, ok := aliases[name]; ok {
			name = canonical
		}
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("%w; * selects all controllers, and %s alone selects none", unknown(item), None)
		}
		if _, mentioned := selected[name]; !mentioned {
			selected[name] = !excluded
		}
	}
	return slices.DeleteFunc(all, func(name string) bool {
		choice, mentioned := selected[name]
		return choice || !mentioned && everything
	}), nil
}

// unknown returns the error for a name that is not in [Names].
//
//upstream:cmd/kube-controller-manager/app/options.KubeControllerManagerOptions.Validate
func unknown(name string) error {
	return fmt.Errorf("%q is not in the list of known controllers: %s", name, strings.Join(Names(), ", "))
}

// UnselectedByVariable returns the result of [Unselected] for the list in the environment variable [Variable], or for the
// default list if the variable is not set or empty.
func UnselectedByVariable(otherwise string) (without []string, err error) {
	list := os.Getenv(Variable)
	if list == "" {
		return Unselected(otherwise)
	}
	if without, err = Unselected(list); err != nil {
		return nil, fmt.Errorf("%s: %w", Variable, err)
	}
	return without, nil
}
