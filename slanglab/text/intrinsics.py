"""Names of Slang's own functions.

A user's function of such a name joins the overloads of Slang's, and slangpy then cannot tell which one is meant.
Each name was looked up in a module that declares nothing, with slangpy 0.43.1.
"""

from __future__ import annotations

__all__ = ["INTRINSICS"]

_NAMES = """
abs acos acosh all any asin asinh atan atan2 atanh ceil clamp cos cosh cospi cross degrees determinant distance dot
exp exp2 exp10 fabs faceforward floor fma fmax fmax3 fmedian3 fmin fmin3 fmod frac fract frexp isfinite isinf isnan ldexp
length lerp log log10 log2 mad max max3 median3 min min3 modf mul normalize pow powr radians rcp reflect
refract rint round rsqrt saturate select sign sin sincos sinh sinpi smoothstep sqrt step tan tanh tanpi transpose trunc
copysign divide fdim nextafter
asdouble asfloat asfloat16 asint asint16 asuint asuint16 bit_cast bitfieldExtract bitfieldInsert countbits f16tof32
f32tof16 firstbithigh firstbitlow msad4 reinterpret reversebits
D3DCOLORtoUBYTE4 dst lit
ddx ddx_coarse ddx_fine ddy ddy_coarse ddy_fine fwidth fwidth_coarse fwidth_fine clip
InterlockedAdd InterlockedAnd InterlockedCompareExchange InterlockedCompareStore InterlockedExchange InterlockedMax
InterlockedMin InterlockedOr InterlockedXor
AllMemoryBarrier AllMemoryBarrierWithGroupSync DeviceMemoryBarrier DeviceMemoryBarrierWithGroupSync GroupMemoryBarrier
GroupMemoryBarrierWithGroupSync
WaveActiveAllEqual WaveActiveAllTrue WaveActiveAnyTrue WaveActiveBallot WaveActiveBitAnd WaveActiveBitOr
WaveActiveBitXor WaveActiveCountBits WaveActiveMax WaveActiveMin WaveActiveProduct WaveActiveSum WaveGetLaneCount
WaveGetLaneIndex WaveIsFirstLane WavePrefixCountBits WavePrefixProduct WavePrefixSum WaveReadLaneAt WaveReadLaneFirst
NonUniformResourceIndex getStringHash printf static_assert
detach diffPair updatePrimal updateDiff updatePair concat makeTuple
beginInvocationInterlock endInvocationInterlock abort debugBreak createDynamicObject
loadAligned storeAligned packUint4x8 packInt4x8
CallShader TraceRay ReportHit IgnoreHit AcceptHitAndEndSearch DispatchMesh SetMeshOutputCounts
cudaThreadIdx cudaBlockIdx cudaBlockDim
dot4add_i8packed dot4add_u8packed dot2add
"""

INTRINSICS = frozenset(_NAMES.split())
"""Functions that Slang declares for every module."""
