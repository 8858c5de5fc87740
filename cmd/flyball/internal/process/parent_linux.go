package process

import "syscall"

// KillWithParent makes the kernel kill a program when the thread that starts it ends, so that the program does not outlive this
// process if it is killed. The goroutine that starts the program must stay on its thread until the program has ended
// ([runtime.LockOSThread]).
func KillWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
