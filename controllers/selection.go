package controllers

import (
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

// kubeControllerManager has a line for each controller of kube-controller-manager: its name; "on", "off", or the feature gate that
// keeps it off; and its other names.
//
//upstream:cmd/kube-controller-manager/app.NewControllerDescriptors
//go:embed kube-controller-manager.txt
var kubeControllerManager string

// theirs returns kube-controller-manager's controllers: the name of each by its name and its other names, and the controllers that
// are off by default.
var theirs = sync.OnceValues(func() (names map[string]string, off []string) {
	names = map[string]string{"service": "service-lb-controller"} // in cloud-controller-manager
	for line := range strings.Lines(kubeControllerManager) {
		fields := strings.Fields(line)
		names[fields[0]] = fields[0]
		for _, alias := range fields[2:] {
			names[alias] = fields[0]
		}
		if fields[1] != "on" {
			off = append(off, fields[0])
		}
	}
	return names, off
})

// missing has, for each of kube-controller-manager's controllers that is not in [Names], the reason.
var missing = map[string]string{
	"device-taint-eviction-controller":                               "no device is allocated, so no pod has a tainted one",
	"kube-apiserver-serving-clustertrustbundle-publisher-controller": "the certificate of the API server is in the ConfigMap kube-root-ca.crt alone",
	"legacy-serviceaccount-token-cleaner-controller":                 "the server does not note when the tokens in Secrets are used",
	"persistentvolume-attach-detach-controller":                      "no volume is attached or mounted",
	"podgroup-protection-controller":                                 "PodGroups are not served",
	"resourceclaim-controller":                                       "no device is allocated",
	"resourcepoolstatusrequest-controller":                           "ResourcePoolStatusRequests are not served",
	"selinux-warning-controller":                                     "no volume is mounted, so none has SELinux labels",
	"storageversion-garbage-collector-controller":                    "StorageVersions are not served",
}

// offByDefault reports whether a controller runs only if [Options.With] has it.
func offByDefault(name string) bool {
	_, off := theirs()
	return slices.Contains(off, name)
}

// Variable is the environment variable that selects the controllers of the stand-in for kube-apiserver and of envtest's
// environments, in the syntax of [Options.Select].
const Variable = "FLYBALL_CONTROLLERS"

// None is the list that selects no controller.
const None = "none"

// Select sets With and Without to the controllers of a list. Without then has each controller that the list does not select, also
// the ones that are off by default.
//
// The list has the syntax of kube-controller-manager's flag --controllers. Its items are separated by commas: "*" selects
// all controllers that are on by default, NAME selects a controller, and -NAME excludes it. The first mention of a controller
// counts. The list [None] selects no controller. The names are [Names], and the names and aliases of kube-controller-manager's
// controllers; see [Options.Missing] for the ones that do not exist here. An unknown name is an error, and changes nothing.
//
//upstream:k8s.io/controller-manager/app.IsControllerEnabled
func (o *Options) Select(list string) error {
	all := Names()
	if strings.TrimSpace(list) == None {
		o.With, o.Without = nil, all
		return nil
	}
	canonical, _ := theirs()
	selected, everything := map[string]bool{}, false
	var with []string
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		switch item {
		case "*":
			everything = true
			continue
		case None:
			return fmt.Errorf("%s selects no controller, and must be the only item of the list, which is %q", None, list)
		}
		name, excluded := strings.CutPrefix(item, "-")
		if known, ok := canonical[name]; ok {
			name = known
		}
		if !isKnown(all, name) {
			return fmt.Errorf("%w; * selects all controllers, and %s alone selects none", unknown(item), None)
		}
		if _, mentioned := selected[name]; mentioned {
			continue
		}
		if selected[name] = !excluded; !excluded && (offByDefault(name) || missing[name] != "") {
			with = append(with, name)
		}
	}
	o.With, o.Without = with, slices.DeleteFunc(all, func(name string) bool {
		choice, mentioned := selected[name]
		return choice || !mentioned && everything && !offByDefault(name)
	})
	return nil
}

// SelectByVariable calls [Options.Select] with the list in the environment variable [Variable], or with the default list if
// the variable is not set or empty.
func (o *Options) SelectByVariable(otherwise string) error {
	list := os.Getenv(Variable)
	if list == "" {
		return o.Select(otherwise)
	}
	if err := o.Select(list); err != nil {
		return fmt.Errorf("%s: %w", Variable, err)
	}
	return nil
}

// Missing returns a message for each controller in With that kube-controller-manager has and that does not exist here.
func (o *Options) Missing() (messages []string) {
	for _, name := range o.With {
		if reason := missing[name]; reason != "" {
			messages = append(messages, fmt.Sprintf("the controller %s does not exist here: %s", name, reason))
		}
	}
	return messages
}

// isKnown reports whether a controller is among all controllers, or is one of kube-controller-manager's.
func isKnown(all []string, name string) bool {
	return slices.Contains(all, name) || missing[name] != ""
}

// unknown returns the error for a name that is not known.
//
//upstream:cmd/kube-controller-manager/app/options.KubeControllerManagerOptions.Validate
func unknown(name string) error {
	return fmt.Errorf("%q is not in the list of known controllers: %s", name, strings.Join(Names(), ", "))
}
