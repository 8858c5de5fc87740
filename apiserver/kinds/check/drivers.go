package check

import "flyball.dev/apiserver/kinds/fieldrules"

// AttacherName is DriverName for a field that kube-apiserver checks by generated code, which has other messages.
func AttacherName(f Field, name string) { f.Report(fieldrules.AttacherName(name, &f.Path, "")...) }
