package controllers

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// aliases are the names that kube-controller-manager has for controllers that have another name
// here, without the suffix "-controller", and their short forms.
var aliases = map[string]string{
	"gc":                                  "garbage-collector",
	"garbagecollector":                    "garbage-collector",
	"endpoint":                            "endpoints",
	"endpointslice-mirroring":             "endpointslicemirroring",
	"pod-garbage-collector":               "podgc",
	"certificatesigningrequest-signing":   "csrsigning",
	"certificatesigningrequest-approving": "csrapproving",
	"certificatesigningrequest-cleaner":   "csrcleaner",
	"nodelifecycle":                       "node-lifecycle",
	"root-ca-certificate-publisher":       "root-ca",
	"root-ca-cert-publisher":              "root-ca",
	"persistentvolumeclaim-protection":    "pvc-protection",
	"persistentvolume-protection":         "pv-protection",
}

// Variable is the environment variable that selects the controllers of the stand-in for
// kube-apiserver and of envtest's environments, in the syntax of [Unselected].
const Variable = "FLYBALL_CONTROLLERS"

// None is the list that selects no controller.
const None = "none"

// Unselected returns the names of the controllers that a list does not select, for
// [Options.Without]. The list is that of kube-controller-manager's flag --controllers, separated by
// commas: "*" selects all controllers, a name the one of that name, and "-" with a name excludes it;
// of several, the first mention of a controller counts. [None], alone, selects none. Names are those of
// [Names], and kube-controller-manager's. A name that is unknown, or empty, is an error.
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
		name = strings.TrimSuffix(name, "-controller")
		if alias, ok := aliases[name]; ok {
			name = alias
		}
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("%q is not in the list of known controllers: %s; * selects all, and %s alone selects none",
				item, strings.Join(all, ", "), None)
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

// UnselectedByVariable returns the result of [Unselected] for the list in the environment variable
// [Variable], or for the default if that is not set or empty.
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
