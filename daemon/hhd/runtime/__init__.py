"""The runtime room: runs a guest program, stops it anywhere, reads its state out and puts it back in another process.

`module` says whether a WebAssembly module keeps to the guest ABI, `compiled` turns it into machine code once, `guest`
runs it slice by slice. `wasmtime_c` is the only file that touches the vendor.
"""
