package sandbox

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/pods/inputs"
	"flyball.dev/controllers/pods/memfs"
)

// Image describes the image of a container. The zero value describes an unknown image.
type Image struct {
	// Command and Args are what a container executes that has none: the entry point of the image, and its arguments.
	Command, Args []string
	// Files are the files by their absolute paths. Files that begin with #! are programs.
	Files map[string]string
}

// programFolders are the folders in which a program without a path is looked for.
var programFolders = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// has reports whether a file is a program with a name or path, in a container of the image.
//
//upstream:none A container runtime has the images.
func (i *Image) has(c *corev1.Container, name string) bool {
	if strings.Contains(name, "/") {
		if !path.IsAbs(name) {
			name = path.Join("/", c.WorkingDir, name)
		}
		return isProgram(i.Files[path.Clean(name)])
	}
	if len(i.Files) == 0 || name == "" {
		return false
	}
	return slices.ContainsFunc(foldersOf(c), func(folder string) bool {
		if !path.IsAbs(folder) {
			folder = path.Join("/", c.WorkingDir, folder)
		}
		return isProgram(i.Files[path.Join(folder, name)])
	})
}

// foldersOf returns the folders in which a container looks for programs without a path: its PATH, if the value is known.
func foldersOf(c *corev1.Container) []string {
	folders := programFolders
	for _, v := range c.Env {
		if v.Name == "PATH" && v.ValueFrom == nil && !strings.Contains(v.Value, "$") {
			folders = strings.Split(v.Value, ":")
		}
	}
	return folders
}

// runtimeFolders have files in every container, which come from the container runtime or a process.
var runtimeFolders = []string{"/dev", "/etc", "/proc", "/sys", "/tmp"}

// lacks reports whether a file of a container can only come from the image, which does not have it here.
//
//upstream:none A container runtime has the images.
func (i *Image) lacks(c *corev1.Container, name string) bool {
	within := func(folder string) bool {
		return name == folder || strings.HasPrefix(name, strings.TrimSuffix(folder, "/")+"/")
	}
	if _, ok := i.Files[name]; ok || slices.ContainsFunc(runtimeFolders, within) {
		return false
	}
	for file := range i.Files {
		if strings.HasPrefix(file, strings.TrimSuffix(name, "/")+"/") {
			return false
		}
	}
	return !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return within(path.Clean("/" + m.MountPath)) }) &&
		!within(serviceAccountFolder)
}

// serviceAccountFolder has the token of a pod.
const serviceAccountFolder = "/var/run/secrets"

func isProgram(text string) bool { return strings.HasPrefix(text, "#!") }

// contents returns the files as a file system takes them, and the files of the kernel that the pod asks for.
//
//upstream:none A container runtime has the images.
func (i *Image) contents(pod *corev1.Pod) map[string]memfs.Content {
	files := make(map[string]memfs.Content, len(i.Files))
	if c := pod.Spec.SecurityContext; c != nil {
		for _, s := range c.Sysctls {
			name := s.Name
			if !strings.Contains(name, "/") {
				name = strings.ReplaceAll(name, ".", "/")
			}
			files["/proc/sys"+path.Clean("/"+name)] = memfs.Content{Data: []byte(s.Value + "\n"), Mode: 0o644}
		}
	}
	for name, text := range i.Files {
		mode := fs.FileMode(0o644)
		if isProgram(text) {
			mode = 0o755
		}
		files[name] = memfs.Content{Data: []byte(text), Mode: mode}
	}
	return files
}

// defaults returns what the image adds before and after the command and the arguments of a container, by the rule of container
// runtimes.
func (i *Image) defaults(c *corev1.Container) (before, after []string) {
	switch {
	case len(c.Command) > 0:
		return nil, nil
	case len(c.Args) > 0:
		return i.Command, nil
	}
	return i.Command, i.Args
}

// argsOf returns the command of a container with its arguments. The values of variables with a source are not known.
//
//upstream:none A container runtime has the images.
func (i *Image) argsOf(c *corev1.Container) []string {
	before, after := i.defaults(c)
	own := append(c.Command[:len(c.Command):len(c.Command)], c.Args...)
	if slices.ContainsFunc(own, func(arg string) bool { return strings.Contains(arg, "$") }) {
		var env []string
		for _, v := range c.Env {
			if v.ValueFrom != nil {
				v.Value = "unknown"
			}
			env = append(env, v.Name+"="+v.Value)
		}
		if expanded, err := inputs.Arguments(c, env); err == nil {
			own = expanded
		}
	}
	return slices.Concat(before, own, after)
}

// image describes the image of a container.
func (s *Sandboxes) image(pod *corev1.Pod, c *corev1.Container) Image {
	if s.o.Image == nil {
		return Image{}
	}
	return s.o.Image(pod, c)
}
