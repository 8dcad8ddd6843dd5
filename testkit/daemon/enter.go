package daemon

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// mayEnterFolders lets a process that is not root's enter and read all folders. A container's
// root often has only the wider of the two capabilities.
func mayEnterFolders(attr *syscall.SysProcAttr) {
	var have [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &have[0]); err != nil {
		return // the start's error will name the folder
	}
	for _, capability := range []uintptr{unix.CAP_DAC_READ_SEARCH, unix.CAP_DAC_OVERRIDE} {
		if have[0].Permitted&(1<<capability) != 0 {
			attr.AmbientCaps = []uintptr{capability}
			return
		}
	}
}
