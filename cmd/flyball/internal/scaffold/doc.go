// Package scaffold writes the files of an operator project in Kubebuilder's layout, and extends existing projects.
//
// [Init], [CreateAPI], [CreateWebhook] and [Edit] implement the commands of the same names. Each renders all files in
// memory first, checks them against existing files, and then writes them. If a step fails, including programs that run
// afterwards, the folder is restored.
//
// The format of the PROJECT file is Kubebuilder's version 3, so that Kubebuilder can work on the same project. The
// package changes the user's code only at the comments "+kubebuilder:scaffold:".
package scaffold
