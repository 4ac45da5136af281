//! Turning swap on and off.

use std::ffi::CStr;

/// swapon(2) with the given priority, `0..=32767`, of which higher ones are filled first.
pub fn swapon(device: &CStr, priority: u16) -> Result<(), i32> {
    const PREFER: libc::c_int = 0x8000;
    let flags = PREFER | libc::c_int::from(priority & 0x7fff);
    // SAFETY: the kernel reads the path, which ends with a zero byte.
    let result = unsafe { libc::swapon(device.as_ptr(), flags) };
    if result == 0 { Ok(()) } else { Err(errno()) }
}

/// swapoff(2): brings back what is on the device. Takes as long as that takes.
pub fn swapoff(device: &CStr) -> Result<(), i32> {
    // SAFETY: the kernel reads the path, which ends with a zero byte.
    let result = unsafe { libc::swapoff(device.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(errno()) }
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
