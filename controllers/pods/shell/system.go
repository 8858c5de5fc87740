package shell

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

func init() {
	programs = map[string]func(c *invocation) int{
		"true": func(*invocation) int { return 0 }, "false": func(*invocation) int { return 1 },
		"test": func(c *invocation) int { return test(c.in, c.args) }, "[": func(c *invocation) int { return test(c.in, c.args) },
		"kill": func(c *invocation) int { return kill(c.in, c.args) }, "pwd": func(c *invocation) int { return pwd(c.in, c.args) },
		"echo": echo, "printf": printf, "env": env, "printenv": printenv, "sleep": sleep, "usleep": usleep, "date": date,
		"hostname": hostnameProgram, "whoami": whoami, "id": id, "uname": uname, "nproc": constantly("1"), "arch": constantly("x86_64"),
		"tty": tty, "stty": stty, "sync": func(*invocation) int { return 0 }, "clear": func(*invocation) int { return 0 },
		"which": which, "timeout": timeout, "xargs": xargs, "nohup": runRest, "setsid": runRest, "nice": runRest, "time": runRest,
		"ps": ps, "pidof": pidof, "pgrep": pidof, "busybox": busybox,

		"cat": cat, "head": head, "tail": tail, "tac": tac, "rev": rev, "wc": wc, "sort": sortProgram, "uniq": uniq, "cut": cut, "tr": tr, "seq": seq, "tee": tee,
		"yes": yes, "nl": nl, "base64": base64Program, "hexdump": hexdump, "expr": expr, "md5sum": sum, "sha1sum": sum, "sha256sum": sum, "sha512sum": sum, "cmp": cmpProgram,
		"diff": diff, "basename": basename, "dirname": dirname, "grep": grep, "egrep": grep, "fgrep": grep, "sed": sed,

		"ls": ls, "mkdir": mkdir, "rmdir": rmdir, "rm": rm, "cp": cp, "mv": mv, "ln": ln, "touch": touch, "chmod": chmod, "chown": chown, "chgrp": chown,
		"stat": statProgram, "find": find, "readlink": readlink, "realpath": realpath, "mktemp": mktemp, "truncate": truncate, "du": du, "df": df,
		"dd": dd, "tar": tar, "gzip": gzipProgram, "gunzip": gzipProgram, "zcat": gzipProgram, "mkfifo": unsupported, "mount": mount, "nc": netcat, "wget": wget, "curl": curl,
	}
	for _, name := range []string{"sh", "bash", "ash", "dash"} {
		programs[name] = func(c *invocation) int {
			args := append([]string{c.called}, c.args[1:]...)
			return c.in.fresh(func(sub *interpreter) int { return sub.shell(args) })
		}
	}
}

func unsupported(c *invocation) int { return c.errorf("not supported: this container is simulated") }

func constantly(text string) func(*invocation) int {
	return func(c *invocation) int { c.printf("%s\n", text); return 0 }
}

func busybox(c *invocation) int {
	if len(c.args) < 2 || c.args[1] == "--list" {
		c.printf("%s\n", strings.Join(Programs(), "\n"))
		return 0
	}
	return c.run(c.args[1:])
}

func printenv(c *invocation) int {
	all := c.in.exported()
	if len(c.args) == 1 {
		for _, e := range all {
			c.printf("%s\n", e)
		}
		return 0
	}
	code := 0
	for _, name := range c.args[1:] {
		i := slices.IndexFunc(all, func(e string) bool { return strings.HasPrefix(e, name+"=") })
		if i < 0 {
			code = 1
			continue
		}
		c.printf("%s\n", all[i][len(name)+1:])
	}
	return code
}

func sleep(c *invocation) int {
	if len(c.args) < 2 {
		return c.errorf("missing operand")
	}
	var total time.Duration
	for _, arg := range c.args[1:] {
		d, err := seconds(arg)
		if err != nil {
			return c.errorf("%v", err)
		}
		if total += d; total < 0 {
			total = 1<<63 - 1
		}
	}
	if err := c.in.process.sleep(c.in.ctx, total); err != nil {
		c.in.step(0)
	}
	return 0
}

func usleep(c *invocation) int {
	if len(c.args) < 2 {
		return c.errorf("missing operand")
	}
	n, err := strconv.Atoi(c.args[1])
	if err != nil || n < 0 {
		return c.errorf("invalid number '%s'", c.args[1])
	}
	if err := c.in.process.sleep(c.in.ctx, time.Duration(n)*time.Microsecond); err != nil {
		c.in.step(0)
	}
	return 0
}

func hostnameProgram(c *invocation) int {
	o, ok := c.options("fsdiI")
	if !ok {
		return 1
	}
	pod := c.in.process.root.spec.Pod
	switch {
	case len(o.args) > 0:
		return c.errorf("sethostname: Operation not permitted")
	case o.has('i') || o.has('I'):
		if pod != nil {
			c.printf("%s\n", pod.Status.PodIP)
		}
	case o.has('f') && pod != nil && pod.Spec.Subdomain != "":
		c.printf("%s.%s.%s.svc.cluster.local\n", hostname(pod), pod.Spec.Subdomain, pod.Namespace)
	default:
		c.printf("%s\n", hostname(pod))
	}
	return 0
}

// userName returns the name of a user of the container.
func (c *invocation) userName(file string, number int64) (string, bool) {
	for line := range strings.SplitSeq(c.in.readSmall(file), "\n") {
		if f := strings.Split(line, ":"); len(f) >= 3 && f[2] == strconv.FormatInt(number, 10) {
			return f[0], true
		}
	}
	if number == 0 {
		return "root", true
	}
	return "", false
}

func whoami(c *invocation) int {
	user := c.in.process.root.identity.user
	name, ok := c.userName("/etc/passwd", user)
	if !ok {
		return c.errorf("unknown uid %d", user)
	}
	c.printf("%s\n", name)
	return 0
}

// id prints the user and the groups of the process.
func id(c *invocation) int {
	o, ok := c.options("ugGnr")
	if !ok {
		return 1
	}
	who := c.in.process.root.identity
	show := func(file string, number int64) string {
		if o.has('n') {
			if name, ok := c.userName(file, number); ok {
				return name
			}
		}
		return strconv.FormatInt(number, 10)
	}
	full := func(file string, number int64) string {
		if name, ok := c.userName(file, number); ok {
			return fmt.Sprintf("%d(%s)", number, name)
		}
		return strconv.FormatInt(number, 10)
	}
	groups := append([]int64{who.group}, who.groups...)
	list := func(show func(string, int64) string, separator string) string {
		var names []string
		for _, g := range groups {
			names = append(names, show("/etc/group", g))
		}
		return strings.Join(names, separator)
	}
	switch {
	case o.has('u'):
		c.printf("%s\n", show("/etc/passwd", who.user))
	case o.has('g'):
		c.printf("%s\n", show("/etc/group", who.group))
	case o.has('G'):
		c.printf("%s\n", list(show, " "))
	default:
		c.printf("uid=%s gid=%s groups=%s\n", full("/etc/passwd", who.user), full("/etc/group", who.group), list(full, ","))
	}
	return 0
}

func uname(c *invocation) int {
	o, ok := c.options("asnrvmpio")
	if !ok {
		return 1
	}
	var parts []string
	for _, p := range []struct {
		flag  byte
		value string
	}{{'s', "Linux"}, {'n', hostname(c.in.process.root.spec.Pod)}, {'r', "0.0.0-flyball"}, {'v', "#1"}, {'m', "x86_64"}, {'o', "GNU/Linux"}} {
		if o.has(p.flag) || o.has('a') || p.flag == 's' && len(o.options) == 0 {
			parts = append(parts, p.value)
		}
	}
	c.printf("%s\n", strings.Join(parts, " "))
	return 0
}

func tty(c *invocation) int {
	if d := c.in.files[0]; d != nil && d.terminal != nil {
		c.printf("/dev/pts/0\n")
		return 0
	}
	c.printf("not a tty\n")
	return 1
}

// stty prints the size of the terminal. It changes nothing, as the terminal of the client is in raw mode.
func stty(c *invocation) int {
	d := c.in.files[0]
	if d == nil || d.terminal == nil {
		return c.errorf("standard input: Not a tty")
	}
	if slices.Contains(c.args[1:], "size") {
		d.terminal.mu.Lock()
		size := d.terminal.size
		d.terminal.mu.Unlock()
		c.printf("%d %d\n", size.Height, size.Width)
	}
	return 0
}

func which(c *invocation) int {
	code := 0
	for _, name := range c.args[1:] {
		if name == "-a" {
			continue
		}
		where := c.in.lookPath(name)
		if where == "" {
			code = 1
			continue
		}
		c.printf("%s\n", where)
	}
	return code
}

func ps(c *invocation) int {
	name, ok := c.userName("/etc/passwd", c.in.process.root.identity.user)
	if !ok {
		name = strconv.FormatInt(c.in.process.root.identity.user, 10)
	}
	c.printf("PID   USER     TIME  COMMAND\n")
	for _, p := range c.in.process.machine.list() {
		p.mu.Lock()
		args := strings.Join(p.args, " ")
		p.mu.Unlock()
		c.printf("%5d %-8s 0:00 %s\n", p.id, name, args)
	}
	return 0
}

// pidof prints the numbers of the processes with a name: pidof and pgrep.
func pidof(c *invocation) int {
	var found []string
	for _, p := range c.in.process.machine.list() {
		p.mu.Lock()
		args := p.args
		p.mu.Unlock()
		for _, name := range c.args[1:] {
			if p != c.in.process && len(args) > 0 && strings.HasSuffix("/"+args[0], "/"+name) {
				found = append(found, strconv.Itoa(p.id))
			}
		}
	}
	if len(found) == 0 {
		return 1
	}
	separator := " "
	if c.args[0] == "pgrep" {
		separator = "\n"
	}
	c.printf("%s\n", strings.Join(found, separator))
	return 0
}
