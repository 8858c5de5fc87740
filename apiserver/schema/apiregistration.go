package schema

// apiServiceTexts are descriptions in the form of SwaggerDoc for APIServices: their Go types have none.
var apiServiceTexts = map[string]map[string]string{
	apiregistration + "APIService": {
		"":         "APIService registers the server of a group version. Its name is VERSION.GROUP.",
		"metadata": "Standard metadata of objects.",
		"spec":     "The group version, and where it is served.",
		"status":   "Whether the group version is available.",
	},
	apiregistration + "APIServiceList": {
		"":         "APIServiceList is a list of APIServices.",
		"metadata": "Standard metadata of lists.",
		"items":    "The APIServices.",
	},
	apiregistration + "APIServiceSpec": {
		"":                      "APIServiceSpec has a group version, and where it is served.",
		"service":               "The Service that serves the group version, over HTTPS. Without one, this API server serves it itself.",
		"group":                 "The name of the API group.",
		"version":               "The version, such as v1.",
		"insecureSkipTLSVerify": "Turns off the verification of the certificate of the Service.",
		"caBundle":              "The certificates, in PEM, of the authorities that sign the certificate of the Service. By default the system's authorities.",
		"groupPriorityMinimum":  "The least priority of the group, from 1 to 20000. Clients prefer groups with a higher priority.",
		"versionPriority":       "The priority of the version in its group, from 1 to 1000. Clients prefer a higher one; versions with the same are sorted by their names.",
	},
	apiregistration + "ServiceReference": {
		"":          "ServiceReference is the name of a Service.",
		"namespace": "The namespace of the Service.",
		"name":      "The name of the Service.",
		"port":      "The port of the Service, 443 by default.",
	},
	apiregistration + "APIServiceStatus": {
		"":           "APIServiceStatus is the state of a registered group version.",
		"conditions": "The conditions of the APIService.",
	},
	apiregistration + "APIServiceCondition": {
		"":                   "APIServiceCondition is one condition of an APIService.",
		"type":               "The type of the condition.",
		"status":             "The status of the condition: True, False or Unknown.",
		"lastTransitionTime": "When the status changed last.",
		"reason":             "Why the status changed last, in one word.",
		"message":            "Why the status changed last, for people.",
	},
}

const apiregistration = "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1."
