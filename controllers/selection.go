package controllers

import (
	"fmt"
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
	"persistentvolumeclaim-protection":    "volume-protection",
	"persistentvolume-protection":         "volume-protection",
	"pvc-protection":                      "volume-protection",
	"pv-protection":                       "volume-protection",
}

// Unselected returns the names of the controllers that a list does not select, for
// [Options.Without]. The list is that of kube-controller-manager's flag --controllers: "*" selects
// all controllers, a name the one of that name, and "-" with a name excludes it; of several, the first
// mention of a controller counts. Besides, "all" is "*", and "none" selects nothing. Names are those of
// [Names], and kube-controller-manager's. A name that is unknown is an error.
func Unselected(list []string) (without []string, err error) {
	all, selected := Names(), map[string]bool{}
	everything := slices.Contains(list, "*") || slices.Contains(list, "all")
	for _, item := range list {
		if item == "*" || item == "all" || item == "none" {
			continue
		}
		name, excluded := strings.CutPrefix(item, "-")
		name = strings.TrimSuffix(name, "-controller")
		if alias, ok := aliases[name]; ok {
			name = alias
		}
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("%q is not in the list of known controllers: %s", item, strings.Join(all, ", "))
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
