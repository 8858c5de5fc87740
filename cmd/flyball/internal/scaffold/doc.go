// Package scaffold writes the files of an operator project in Kubebuilder's layout, and extends
// projects that exist.
//
// [Init], [CreateAPI], [CreateWebhook] and [Edit] are the commands of the same names. Each renders
// all files in memory first, checks them against what exists, and then writes them. If a step fails,
// also one that runs a program afterwards, the folder is left as it was.
//
// The PROJECT file is that of Kubebuilder (version 3), which can work on the same project. Code of
// the user is changed only where the comments "+kubebuilder:scaffold:" are.
package scaffold
